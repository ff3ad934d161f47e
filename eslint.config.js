// Lint rules. The directions of imports stand here:
// cli -> run, commands -> http | keeper | dispatch | ui -> webhooks -> domain, chain -> db.
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import importX from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';
import timeBounds from './test/lint/time-bounds.js';

const entry = ['cli.ts', 'cli', 'run.ts', 'commands'];
const daemons = ['http', 'keeper', 'dispatch'];
const local = ['localnet', 'sandbox'];
const leaves = ['log.ts', 'errors.ts', 'loop.ts', 'backoff.ts', 'each.ts', 'config.ts', 'config'];
const above = [...entry, ...daemons, ...local, 'ui'];

/** What each folder or file of `src` may not import. */
const forbidden = {
  ...Object.fromEntries(
    leaves.map((leaf) => [leaf, [...above, 'webhooks', 'domain', 'chain', 'db']]),
  ),
  db: [...above, 'webhooks', 'domain', 'chain'],
  chain: [...above, 'webhooks', 'domain', 'db'],
  domain: [...above, 'webhooks'],
  webhooks: above,
  ui: [...entry, ...daemons, ...local, 'webhooks', 'domain', 'chain', 'db'],
  ...Object.fromEntries(
    daemons.map((daemon) => [daemon, above.filter((other) => other !== daemon)]),
  ),
  localnet: [...entry, ...daemons, 'sandbox', 'webhooks', 'domain', 'db'],
  commands: ['cli.ts', 'cli'],
  'run.ts': ['cli.ts', 'cli'],
  pages: [...above, ...leaves, 'webhooks', 'domain', 'chain', 'db'],
};
const zones = Object.entries(forbidden).flatMap(([name, others]) =>
  others.map((other) => ({ target: `./src/${name}`, from: `./src/${other}` })),
);

export default tseslint.config(
  { ignores: ['dist/**', '.tap/**', '.build/**', 'node_modules/**', 'src/client/openapi.ts'] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    plugins: { 'import-x': importX },
    settings: {
      'import-x/extensions': ['.ts', '.tsx'],
      'import-x/resolver-next': [createTypeScriptImportResolver()],
    },
    rules: {
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-unnecessary-condition': [
        'error',
        { allowConstantLoopConditions: true },
      ],
      'import-x/no-restricted-paths': ['error', { zones }],
      'import-x/no-cycle': ['error', { ignoreExternal: true }],
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  {
    files: ['src/**'],
    rules: {
      'max-lines': ['error', 300],
      'max-lines-per-function': ['error', 70],
      'no-restricted-syntax': [
        'error',
        { selector: 'TaggedTemplateExpression', message: 'Only src/db holds SQL.' },
        { selector: "MemberExpression[property.name='unsafe']", message: 'Only src/db holds SQL.' },
      ],
      'no-restricted-properties': [
        'error',
        {
          object: 'process',
          property: 'env',
          message: 'Only config.ts and config/ read the environment.',
        },
      ],
      'no-restricted-imports': [
        'error',
        {
          patterns: [{ group: ['@solana/*'], message: 'Only src/chain imports @solana/*.' }],
          paths: [{ name: 'litesvm', message: 'Only src/localnet runs the local chain.' }],
        },
      ],
    },
  },
  {
    // A component's length is its markup.
    files: ['src/pages/**/*.tsx'],
    rules: { 'max-lines-per-function': ['error', 170] },
  },
  { files: ['src/db/**'], rules: { 'no-restricted-syntax': 'off' } },
  {
    files: ['src/config/config.ts', 'src/config/**'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: ['src/chain/**', 'src/localnet/**', 'src/pages/**'],
    rules: { 'no-restricted-imports': 'off' },
  },
  {
    files: ['test/**', 'bench/**', 'program/**', 'sql/**', 'docs/**'],
    rules: {
      'no-console': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
  {
    files: ['test/**'],
    // The long forms, and what only they run, take their time.
    ignores: [
      'test/fixtures/**',
      'test/night/**',
      'test/soak/!(*.test).ts',
      'test/**/*.long.ts',
      'test/run.ts',
    ],
    plugins: { tests: { rules: { 'time-bounds': timeBounds } } },
    rules: { 'tests/time-bounds': 'error' },
  },
  {
    files: ['eslint.config.js', 'bin/**', 'test/fixtures/*.js', 'test/lint/*.js'],
    ...tseslint.configs.disableTypeChecked,
  },
);
