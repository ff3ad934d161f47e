import t from 'tap';
import { unknownNames } from '../../src/config/unknown-names.ts';

void t.test(
  'an unknown variable with a prefix of billing, or similar to a known variable, is refused',
  (t) => {
    for (const [name, meant] of [
      ['PLATFORM_TRESURY', 'PLATFORM_TREASURY'],
      ['PLATFORM_FEE_BP', 'PLATFORM_FEE_BPS'],
      ['ENCRYPTON_KEY', 'ENCRYPTION_KEY'],
      ['DATABSE_URL', 'DATABASE_URL'],
      ['JWT_SECRETS', 'JWT_SECRET'],
      ['JWT_SECRET_FIEL', 'JWT_SECRET_FILE'],
    ] as const)
      t.same(unknownNames([name]), [`${name} is not a variable of billing. Is ${meant} meant?`]);
    t.same(unknownNames(['BILLING_SOMETHING_ELSE']), [
      'BILLING_SOMETHING_ELSE is not a variable of billing.',
    ]);
    t.end();
  },
);

void t.test(
  'known variables, variables of other programs and those that Kubernetes sets are accepted',
  (t) => {
    t.same(
      unknownNames([
        'PLATFORM_TREASURY',
        'JWT_SECRET_FILE',
        'PATH',
        'HOME',
        'HOSTNAME',
        'LANG',
        'NODE_ENV',
        'PGHOST',
        'BILLING_SERVE_SERVICE_HOST',
        'BILLING_SERVE_SERVICE_PORT_HTTP',
        'BILLING_SERVE_PORT_3000_TCP_ADDR',
        'BILLING_SERVE_PORT',
      ]),
      [],
    );
    t.end();
  },
);
