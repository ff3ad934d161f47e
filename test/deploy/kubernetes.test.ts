// The manifests of deploy/kubernetes agree with each other, with the image, the configuration and
// the routes of the daemons. There is no cluster here that would judge them.
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { describeVariables } from '../../src/config/variables.ts';

interface Probe {
  httpGet: { path: string; port: string };
  periodSeconds: number;
  failureThreshold: number;
}

interface Container {
  name: string;
  image: string;
  command?: string[];
  args: string[];
  ports?: { name: string; containerPort: number }[];
  envFrom: { configMapRef: { name: string } }[];
  env: { name: string; value: string }[];
  readinessProbe?: Probe;
  livenessProbe?: Probe;
  startupProbe?: Probe;
  resources: { limits: { memory: string } };
  securityContext: Record<string, unknown>;
  volumeMounts: { name: string; mountPath: string }[];
}

interface PodTemplate {
  metadata: { labels: Record<string, string> };
  spec: {
    terminationGracePeriodSeconds?: number;
    securityContext: Record<string, unknown>;
    containers: [Container];
    volumes: { name: string; secret?: { secretName: string; defaultMode: number } }[];
  };
}

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string> };
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  spec: {
    replicas?: number;
    minAvailable?: number;
    selector?: Record<string, unknown>;
    template?: PodTemplate;
    jobTemplate?: { spec: { template: PodTemplate } };
    ports?: { name: string; port: number; targetPort: string }[];
    endpoints?: { port: string }[];
  };
}

const folder = new URL('../../deploy/kubernetes/', import.meta.url);
const daemons = ['serve', 'keeper', 'dispatch'];
const files = (await readdir(folder)).filter((name) => name !== 'kustomization.yaml');
const read = async (name: string) =>
  parseAllDocuments(await readFile(new URL(name, folder), 'utf8')).map((document) => {
    if (document.errors.length > 0) throw new Error(`${name}: ${document.errors.join('\n')}`);
    return document.toJS() as Manifest;
  });
const manifests = (await Promise.all(files.map(read))).flat();
const named = (kind: string, name: string) => {
  const found = manifests.filter((one) => one.kind === kind && one.metadata.name === name);
  t.equal(found.length, 1, `${kind} ${name}`);
  return found[0] as Manifest;
};
const podOf = ({ spec }: Manifest) =>
  (spec.template ?? spec.jobTemplate?.spec.template) as PodTemplate;
const workloads = [
  ...daemons.map((role) => ({ role, pod: podOf(named('Deployment', `billing-${role}`)) })),
  { role: 'migrate', pod: podOf(named('Job', 'billing-migrate')) },
  { role: 'reconcile', pod: podOf(named('CronJob', 'billing-reconcile')) },
];

void t.test('each container has a memory limit', (t) => {
  for (const { role, pod } of workloads)
    t.match(pod.spec.containers[0].resources.limits.memory, /^(512Mi|1Gi)$/, role);
  t.end();
});

void t.test('kustomization.yaml lists every file except the example secrets', async (t) => {
  const { resources } = parse(await readFile(new URL('kustomization.yaml', folder), 'utf8')) as {
    resources: string[];
  };
  t.same(resources.toSorted(), files.filter((name) => name !== 'secrets.example.yaml').toSorted());
  t.same(
    [...new Set(manifests.map(({ kind, apiVersion }) => `${apiVersion} ${kind}`))].toSorted(),
    [
      'apps/v1 Deployment',
      'batch/v1 CronJob',
      'batch/v1 Job',
      'monitoring.coreos.com/v1 ServiceMonitor',
      'policy/v1 PodDisruptionBudget',
      'v1 ConfigMap',
      'v1 Secret',
      'v1 Service',
    ],
  );
});

void t.test('each workload has all variables that it needs, and its secrets as files', (t) => {
  const known = new Map(describeVariables().map((variable) => [variable.name, variable]));
  const plain = Object.keys(named('ConfigMap', 'billing').data ?? {});
  for (const name of plain) t.equal(known.get(name)?.secret ?? false, false, name);
  for (const { role, pod } of workloads) {
    const [container] = pod.spec.containers;
    t.same(container.args, [role]);
    t.same(container.envFrom, [{ configMapRef: { name: 'billing' } }]);
    const secret = named('Secret', `billing-${role}`).stringData ?? {};
    const volume = pod.spec.volumes.find(({ name }) => name === 'secrets');
    t.same(volume?.secret, { secretName: `billing-${role}`, defaultMode: 0o440 });
    const folder = container.volumeMounts.find(({ name }) => name === 'secrets')?.mountPath ?? '';
    const mounted = container.env.filter(({ value }) => value.startsWith(`${folder}/`));
    t.same(
      mounted.map(({ value }) => value.slice(folder.length + 1)).toSorted(),
      Object.keys(secret).toSorted(),
      `${role}: every secret is used`,
    );
    const given = new Set([
      ...plain,
      ...container.env.map(({ name }) => name.replace(/_FILE$/, '')),
    ]);
    for (const name of given) t.ok(known.has(name), `${role}: ${name}`);
    for (const { name, requiredBy, secret } of known.values())
      if (role !== 'migrate' && requiredBy?.some((one) => one === role) === true) {
        t.ok(given.has(name), `${role}: ${name}`);
        if (secret === true) t.notOk(plain.includes(name), name);
      }
    t.match(secret.database_url, role === 'migrate' ? /_owner:/ : new RegExp(`_${role}:`));
  }
  t.end();
});

void t.test(
  'ports and probes in the manifests equal those of the image and the daemons',
  async (t) => {
    const dockerfile = await readFile(new URL('../../Dockerfile', folder), 'utf8');
    const [, exposed = ''] = /^EXPOSE (.*)$/m.exec(dockerfile) ?? [];
    const [http = 0, metrics = 0] = exposed.split(' ').map(Number);
    for (const daemon of daemons) {
      const { pod } = workloads.find(({ role }) => role === daemon) as (typeof workloads)[0];
      const [{ ports = [], env, ...probes }] = pod.spec.containers;
      t.same(Object.fromEntries(ports.map(({ name, containerPort }) => [name, containerPort])), {
        metrics,
        ...(daemon === 'serve' && { http }),
      });
      t.equal(probes.readinessProbe?.httpGet.path, '/readyz');
      for (const probe of [probes.livenessProbe, probes.startupProbe])
        t.same(probe?.httpGet, { path: '/healthz', port: 'metrics' }, 'Postgres may be away');
      const delay = Number(env.find(({ name }) => name === 'SHUTDOWN_DELAY')?.value ?? 0);
      const { periodSeconds = 0, failureThreshold = 0 } = probes.readinessProbe ?? {};
      if (daemon === 'serve') {
        t.equal(probes.readinessProbe?.httpGet.port, 'http');
        t.equal(delay, periodSeconds * failureThreshold + 5, 'as docs/configuration.md has it');
      }
      t.ok((pod.spec.terminationGracePeriodSeconds ?? 0) >= delay + 15);
      t.same(named('PodDisruptionBudget', `billing-${daemon}`).spec, {
        minAvailable: 1,
        selector: { matchLabels: pod.metadata.labels },
      });
      const deployment = named('Deployment', `billing-${daemon}`);
      t.same(deployment.spec.selector, { matchLabels: pod.metadata.labels });
      t.equal(deployment.spec.replicas, 2);
    }
    const api = named('Service', 'billing-serve').spec;
    t.same(api.selector, { app: 'billing', daemon: 'serve' });
    t.same(api.ports, [{ name: 'http', port: 80, targetPort: 'http' }]);
    const scraped = named('Service', 'billing-metrics');
    const monitor = named('ServiceMonitor', 'billing').spec;
    t.same(monitor.selector, { matchLabels: { scrape: scraped.metadata.labels?.scrape } });
    t.same(
      monitor.endpoints?.map(({ port }) => port),
      scraped.spec.ports?.map(({ name }) => name),
    );
  },
);

void t.test('every pod runs the same image as an unprivileged user', (t) => {
  for (const { role, pod } of workloads) {
    const [container] = pod.spec.containers;
    t.match(pod.spec.securityContext, { runAsNonRoot: true, runAsUser: 1000 }, role);
    t.match(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  }
  t.equal(new Set(workloads.map(({ pod }) => pod.spec.containers[0].image)).size, 1);
  t.end();
});

void t.test('the keeper’s Node settings equal those of its systemd unit', async (t) => {
  const unit = await readFile(new URL('../systemd/billing-keeper.service', folder), 'utf8');
  const { pod } = workloads.find(({ role }) => role === 'keeper') as (typeof workloads)[0];
  const settings = pod.spec.containers[0].command?.slice(1, -1) ?? [];
  t.match(unit, `/usr/bin/node ${settings.join(' ')} /opt/billing/bin/billing.js keeper`);
});
