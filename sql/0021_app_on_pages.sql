-- What an app shows on its pages: whom to ask, its terms, its logo, and a website that is proven.
-- min_release: 0.1.0

alter table apps
  add column support_email text,
  add column support_url text,
  add column terms_url text,
  add column privacy_url text,
  add column website_proven_at timestamptz,
  add column logo_version text check (logo_version ~ '^[0-9a-f]{16}$'),
  add constraint proven_website_is_given check (website_proven_at is null or website_url is not null);
comment on column apps.website_proven_at is 'when /.well-known/billing.json at website_url named the app; null while nothing proves that the website is the merchant''s';
comment on column apps.logo_version is 'the start of the SHA-256 of the logo in app_logos; null without a logo';

create table app_logos (
  app_id uuid primary key references apps,
  content_type text not null check (content_type in ('image/png', 'image/webp')),
  image bytea not null check (length(image) between 1 and 65536),
  stored_at timestamptz not null default now()
);
comment on table app_logos is 'the logo of an app, as its merchant sent it, once it was decoded';
