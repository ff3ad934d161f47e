// Part of "npm run build": writes dist/public, the files that serve hands out as they are: /openapi.json and the pages of /docs.
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
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
    <title>billing API</title>
    <link rel="stylesheet" href="swagger-ui.css" />
    <link rel="icon" type="image/png" href="favicon-32x32.png" sizes="32x32" />
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="swagger-ui-bundle.js"></script>
    <script src="start.js"></script>
  </body>
</html>
`;
const start = `SwaggerUIBundle({
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
for (const file of ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'])
  await copyFile(join(swaggerUi, file), join(target, 'docs', file));
