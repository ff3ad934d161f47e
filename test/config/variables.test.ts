import t from 'tap';
import { describeVariables, variables } from '../../src/config/variables.ts';

void t.test(
  'every variable has a unique name, a description and a default that its own rule accepts',
  (t) => {
    const described = describeVariables();
    for (const { name, about } of described)
      t.ok(/^[A-Z_]+$/.test(name) && about.length > 10, name);
    t.equal(new Set(described.map(({ name }) => name)).size, described.length);
    for (const variable of Object.values(variables))
      if ('fallback' in variable)
        t.doesNotThrow(() => void variable.parse(variable.fallback), variable.name);
    t.end();
  },
);

void t.test('every secret can be read from a file', (t) => {
  const secret = new Set(
    describeVariables().flatMap(({ name, secret: is }) => (is === true ? [name] : [])),
  );
  for (const name of [
    'DATABASE_URL',
    'SOLANA_RPC_URL',
    'JWT_SECRET',
    'ENCRYPTION_KEY',
    'BILLING_API_KEY',
  ])
    t.ok(secret.has(name), name);
  t.end();
});
