-- Collection in windows: renewals that fall due within one window are collected together, so that transactions are full.

alter table installation
  add column window_seconds int check (window_seconds between 0 and 86400);
comment on column installation.window_seconds is 'renewals are collected at multiples of this many seconds of chain time; 0: at once; null until billing migrate has recorded it, for an installation older than this column';
