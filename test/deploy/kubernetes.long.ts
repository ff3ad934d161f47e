// The manifests of deploy/kubernetes by the types and schemas of Kubernetes and of the Prometheus
// operator (npm, test/deploy/kubernetes): TypeScript finds unknown fields, schemas wrong values.
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parseAllDocuments } from 'yaml';
import { installPackages } from '../fixtures/packages.ts';

const execute = promisify(execFile);
const folder = new URL('../../deploy/kubernetes/', import.meta.url);
const compiler = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
}

async function readManifests(): Promise<Manifest[]> {
  const files = (await readdir(folder)).filter((name) => name !== 'kustomization.yaml');
  const texts = await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')));
  return texts.flatMap((text) =>
    parseAllDocuments(text).map((document) => document.toJS() as Manifest),
  );
}

function moduleOf({ apiVersion, kind }: Manifest): string {
  const models = apiVersion.startsWith('monitoring.coreos.com/')
    ? '@kubernetes-models/prometheus-operator'
    : 'kubernetes-models';
  return `${models}/${apiVersion}/${kind}`;
}

/** Compiles the manifests as literals of their types, then validates them. */
async function judge(t: Test, manifests: readonly Manifest[]): Promise<string> {
  const place = await mkdtemp(join(await installPackages('test/deploy/kubernetes'), 'judged-'));
  t.teardown(() => rm(place, { recursive: true, force: true }));
  const lines = manifests.flatMap((manifest, n) => [
    `import { ${manifest.kind} as Kind${n}, type I${manifest.kind} as IKind${n} } from '${moduleOf(manifest)}';`,
    `const manifest${n}: IKind${n} = ${JSON.stringify(manifest)};`,
    `new Kind${n}(manifest${n}).validate();`,
  ]);
  const file = join(place, 'manifests.mts');
  await writeFile(file, lines.join('\n'));
  const options = ['--module', 'nodenext', '--strict', '--skipLibCheck', '--ignoreConfig'];
  try {
    await execute(process.execPath, [compiler, ...options, file], { cwd: place });
    await execute(process.execPath, [file.replace('.mts', '.mjs')]);
    return '';
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    return stdout + stderr;
  }
}

void t.test('every Kubernetes manifest is valid by the schema of its kind', async (t) => {
  const manifests = await readManifests();
  t.ok(manifests.length > 10);
  t.equal(await judge(t, manifests), '');
});

void t.test(
  'the manifest check finds an unknown field, a wrong type and a wrong quantity',
  async (t) => {
    const deployment = (await readManifests()).find(({ kind }) => kind === 'Deployment');
    const broken = (from: string, to: string) => {
      const text = JSON.stringify(deployment);
      t.ok(text.includes(from), from);
      return [JSON.parse(text.replace(from, to)) as Manifest];
    };
    t.match(await judge(t, broken('readinessProbe', 'readinesProbe')), /readinesProbe/);
    t.match(await judge(t, broken('"replicas":2', '"replicas":"two"')), /string/);
    t.match(await judge(t, broken('"replicas":2', '"replicas":2.5')), /replicas/);
  },
);
