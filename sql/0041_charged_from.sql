-- A payment that the service tries late is charged from its first try on (src/domain/collecting/late.ts).
-- min_release: 0.1.0
comment on column subscriptions.charged_from is 'chain time from which the on-chain period that contains it is charged: of a resume or a registration inside the period, or of a late first try of its payment';
