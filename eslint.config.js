// Lint rules. The import directions of the house live here: cli -> run, commands -> http | keeper | dispatch | ui -> domain, chain -> db.
import importX from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';

const folder = (name) => `./src/${name}`;
const upper = ['cli.ts', 'cli', 'run.ts', 'commands'].map(folder);
const daemons = ['http', 'keeper', 'dispatch'].map(folder);
const local = ['localnet', 'sandbox'].map(folder);
const leaves = ['log.ts', 'errors.ts', 'loop.ts', 'backoff.ts', 'each.ts', 'config.ts', 'config'].map(folder);
const inner = ['domain', 'chain', 'db'].map(folder);

/** `target` may not import `from`. */
const zone = (target, from) => ({ target, from });

const zones = [
  ...leaves.flatMap((leaf) => [...upper, ...daemons, ...local, ...inner, folder('ui')].map((from) => zone(leaf, from))),
  ...[...upper, ...daemons, ...local, folder('ui'), folder('domain'), folder('chain')].map((from) => zone(folder('db'), from)),
  ...[...upper, ...daemons, ...local, folder('ui'), folder('domain'), folder('db')].map((from) => zone(folder('chain'), from)),
  ...[...upper, ...daemons, ...local, folder('ui')].map((from) => zone(folder('domain'), from)),
  ...[...upper, ...daemons, ...local, ...inner].map((from) => zone(folder('ui'), from)),
  ...daemons.flatMap((daemon) =>
    [...upper, ...local, folder('ui'), ...daemons.filter((other) => other !== daemon)].map((from) => zone(daemon, from)),
  ),
  ...[...upper, ...daemons, folder('sandbox'), folder('domain'), folder('db')].map((from) => zone(folder('localnet'), from)),
  ...['commands', 'run.ts'].flatMap((name) => ['cli.ts', 'cli'].map((from) => zone(folder(name), folder(from)))),
];

export default tseslint.config(
  { ignores: ['dist/**', '.tap/**', 'node_modules/**', 'src/client/openapi.ts'] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { 'import-x': importX },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      'import-x/no-restricted-paths': ['error', { zones }],
      'import-x/no-cycle': 'off',
      eqeqeq: 'error',
      'no-console': 'error',
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    files: ['src/**'],
    rules: {
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'Only config.ts and config/ read the environment.' },
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
  { files: ['src/config.ts', 'src/config/**'], rules: { 'no-restricted-properties': 'off' } },
  { files: ['src/chain/**', 'src/localnet/**'], rules: { 'no-restricted-imports': 'off' } },
  {
    files: ['test/**', 'bench/**', 'program/**', 'sql/**', 'docs/**'],
    rules: { 'no-console': 'off', '@typescript-eslint/no-non-null-assertion': 'off', 'max-lines': 'off' },
  },
  { files: ['eslint.config.js', 'bin/**', 'test/fixtures/*.js'], ...tseslint.configs.disableTypeChecked },
);
