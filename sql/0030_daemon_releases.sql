-- min_release: 0.1.0
-- The release of each running daemon, and the newest migration that the release knows. The columns
-- are null for daemons of a release that does not write them.
alter table daemons add column release text, add column schema_version integer;
