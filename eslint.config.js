// Lint rules. The directions of imports stand here:
// cli -> local -> http | keeper | dispatch -> daemon -> webhooks -> domain -> chain | db -> config.
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import importX from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';
import namedColumns from './test/lint/named-columns.js';
import timeBounds from './test/lint/time-bounds.js';

/** From the top to the bottom: a folder imports only from rows below its own. */
const layers = [
  ['cli.ts'],
  ['cli'],
  ['local'],
  ['http', 'keeper', 'dispatch'],
  ['daemon'],
  ['webhooks'],
  ['domain'],
  ['chain', 'db'],
  ['config'],
  ['log.ts', 'loop.ts', 'each.ts', 'format.ts', 'explorer.ts', 'words'],
  ['errors.ts', 'backoff.ts', 'sockets.ts', 'trace.ts'],
];
/** Folders that import nothing of the others: they run at merchants and in browsers. */
const apart = ['client', 'pages'];
/** The folders that call the API, beside pages. */
const usesClient = ['cli', 'local'];
/** What pages import beside their own folder. */
const inPages = ['client', 'format.ts', 'explorer.ts', 'words'];
/** Rooms of a folder that others below it do not know, in the same way. */
const rooms = {
  keeper: [
    ['keeper.ts'],
    ['sponsor'],
    ['collect', 'follow', 'guard'],
    ['track'],
    ['read'],
    ['base'],
  ],
  http: [['serve.ts'], ['app.ts'], ['routes'], ['site'], ['door'], ['shapes']],
  chain: [['transactions', 'streams'], ['rpc'], ['program']],
  domain: [
    ['offers'],
    ['change', 'standing'],
    ['registration'],
    ['actions'],
    ['plans'],
    ['collecting'],
    ['invoices'],
    ['outbox'],
    ['accounts'],
    ['chain-reads.ts', 'money.ts', 'names.ts', 'reasons.ts'],
  ],
  db: [
    ['accounts'],
    ['operating'],
    ['money'],
    ['subscriptions'],
    ['offers', 'delivering'],
    ['invoices'],
    ['postgres'],
  ],
  'pages/dashboard': [
    ['main.tsx'],
    ['page.tsx'],
    ['customers', 'subscriptions', 'settings', 'webhook'],
    ['plans', 'payments'],
    ['parts'],
  ],
  cli: [
    ['local'],
    ['operate'],
    ['develop'],
    ['session.ts'],
    ['api-key.ts', 'arguments.ts'],
    ['terminal'],
  ],
  local: [['sandbox'], ['chain']],
  'local/chain': [['rpc'], ['disk'], ['wire']],
};

/** One dialect: `#name`. */
const noPrivate = {
  selector: ':matches(PropertyDefinition, MethodDefinition)[accessibility="private"]',
  message: 'Write #name.',
};

const zonesOf = (base, rows) =>
  rows.flatMap((row, level) =>
    row.flatMap((target) =>
      [...rows.slice(0, level).flat(), ...row.filter((other) => other !== target)].map((from) => ({
        target: `${base}/${target}`,
        from: `${base}/${from}`,
      })),
    ),
  );
const zones = [
  ...zonesOf('./src', layers),
  ...apart.flatMap((folder) =>
    [...layers.flat(), ...apart.filter((other) => other !== folder)]
      .filter((other) => !(folder === 'pages' && inPages.includes(other)))
      .map((other) => ({ target: `./src/${folder}`, from: `./src/${other}` })),
  ),
  ...layers
    .flat()
    .filter((folder) => !usesClient.includes(folder))
    .map((folder) => ({ target: `./src/${folder}`, from: './src/client' })),
  ...layers.flat().map((folder) => ({ target: `./src/${folder}`, from: './src/pages' })),
  ...Object.entries(rooms).flatMap(([folder, rows]) => zonesOf(`./src/${folder}`, rows)),
];

export default tseslint.config(
  {
    ignores: [
      'dist/**',
      '.tap/**',
      '.build/**',
      'node_modules/**',
      'examples/**',
      'src/client/openapi.ts',
    ],
  },
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
      'import-x/no-duplicates': 'error',
      'import-x/order': [
        'error',
        {
          groups: ['builtin', 'external', ['parent', 'sibling', 'index']],
          alphabetize: { order: 'asc' },
          'newlines-between': 'never',
        },
      ],
      'max-len': [
        'error',
        {
          code: 100,
          ignoreStrings: true,
          ignoreTemplateLiterals: true,
          ignoreRegExpLiterals: true,
          ignoreUrls: true,
        },
      ],
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  {
    files: ['src/**'],
    rules: {
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 70],
      'no-restricted-syntax': [
        'error',
        { selector: 'TaggedTemplateExpression', message: 'Only src/db holds SQL.' },
        { selector: "MemberExpression[property.name='unsafe']", message: 'Only src/db holds SQL.' },
        noPrivate,
      ],
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'variable',
          modifiers: ['const', 'global'],
          types: ['boolean', 'number'],
          format: ['UPPER_CASE'],
        },
      ],
      'no-restricted-properties': [
        'error',
        {
          object: 'process',
          property: 'env',
          message: 'Only src/config reads the environment.',
        },
      ],
      'no-restricted-imports': [
        'error',
        {
          patterns: [{ group: ['@solana/*'], message: 'Only src/chain imports @solana/*.' }],
          paths: [{ name: 'litesvm', message: 'Only src/local/chain runs the local chain.' }],
        },
      ],
    },
  },
  {
    // The other files that wait. Their routes have config.waits: test/http/door/waiting.test.ts.
    files: ['src/http/**', 'src/domain/**'],
    ignores: [
      'src/http/routes/sponsored.ts',
      'src/domain/offers/relay.ts',
      'src/domain/outbox/event-feed.ts',
    ],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [{ group: ['@solana/*'], message: 'Only src/chain imports @solana/*.' }],
          paths: [
            { name: 'litesvm', message: 'Only src/local/chain runs the local chain.' },
            {
              name: 'node:timers/promises',
              message:
                'A route that waits needs config.waits: list the file here, the route there.',
            },
          ],
        },
      ],
    },
  },
  {
    // A component's length is its markup.
    files: ['src/pages/**/*.tsx'],
    rules: { 'max-lines-per-function': ['error', 170] },
  },
  {
    files: ['src/db/**'],
    plugins: { statements: { rules: { 'named-columns': namedColumns } } },
    rules: {
      'no-restricted-syntax': ['error', noPrivate],
      'statements/named-columns': 'error',
    },
  },
  {
    files: ['src/config/**'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: ['src/chain/**', 'src/local/chain/**', 'src/pages/**'],
    rules: { 'no-restricted-imports': 'off' },
  },
  {
    files: ['test/**', 'bench/**', 'scripts/**'],
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
