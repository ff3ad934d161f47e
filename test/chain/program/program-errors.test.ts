// The names of the program's errors, with its published client and the C of the local program as
// judges.
import { readFile } from 'node:fs/promises';
import * as client from '@solana/subscriptions';
import t from 'tap';
import { PROGRAM_ERRORS } from '../../../src/chain/program/program-errors.ts';

const shouting = (name: string) => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase();

void t.test(
  'the table of program errors has every error of the published client, under its code',
  async (t) => {
    const known = Object.entries(client).flatMap(([name, value]) => {
      const found = /^SUBSCRIPTIONS_ERROR__(.*)$/.exec(name);
      return found !== null && typeof value === 'number' ? [[value, found[1]] as const] : [];
    });
    t.ok(known.length > 50);
    for (const [code, name] of known)
      t.equal(
        shouting(PROGRAM_ERRORS.get(code) ?? '').replace(/_/g, ''),
        name?.replace(/_/g, ''),
        `${code}`,
      );
  },
);

void t.test(
  'the table of program errors has every error that the local program returns, under its code',
  async (t) => {
    const header = await readFile(new URL('../../../program/errors.h', import.meta.url), 'utf8');
    const codes = [...header.matchAll(/^\s*([A-Z][A-Z0-9_]+)\s*=\s*(\d{3}),?/gm)].map(
      ([, name, code]) => [Number(code), name] as const,
    );
    t.ok(codes.length > 20);
    for (const [code] of codes) t.ok(PROGRAM_ERRORS.has(code), `${code}`);
  },
);

void t.test('all program errors have different names', (t) => {
  t.equal(new Set(PROGRAM_ERRORS.values()).size, PROGRAM_ERRORS.size);
  t.end();
});
