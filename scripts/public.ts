// Part of "npm run build": writes dist/public, the static files of serve: /openapi.json and the
// pages of /docs.
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openApiDocument } from './openapi.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = join(root, 'dist', 'public');
const swaggerUi = join(
  dirname(createRequire(import.meta.url).resolve('@fastify/swagger-ui/package.json')),
  'static',
);

const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>billing API</title>
    <link rel="stylesheet" href="swagger-ui.css" />
    <link rel="stylesheet" href="reference.css" />
    <link rel="icon" type="image/svg+xml" href="icon.svg" />
  </head>
  <body>
    <header class="top">
      <a class="brand" href="/docs/"><img src="icon.svg" alt="" width="26" height="26" />billing API</a>
      <nav aria-label="Elsewhere">
        <a href="/openapi.json">openapi.json</a>
        <a href="/dashboard">Dashboard</a>
      </nav>
    </header>
    <div id="swagger-ui"></div>
    <script src="swagger-ui-bundle.js"></script>
    <script src="start.js"></script>
  </body>
</html>
`;
const start = `const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();
SwaggerUIBundle({
  url: '../openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null,
  tryItOutEnabled: true,
});
`;

const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
  version: string;
};
await rm(target, { recursive: true, force: true });
await mkdir(join(target, 'docs'), { recursive: true });
await writeFile(join(target, 'openapi.json'), JSON.stringify(await openApiDocument(version)));
await writeFile(join(target, 'docs', 'index.html'), page);
await writeFile(join(target, 'docs', 'start.js'), start);
for (const file of [
  join(swaggerUi, 'swagger-ui.css'),
  join(swaggerUi, 'swagger-ui-bundle.js'),
  join(root, 'scripts', 'reference.css'),
  join(root, 'src', 'pages', 'icon.svg'),
])
  await copyFile(file, join(target, 'docs', basename(file)));
