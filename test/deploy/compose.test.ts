// compose.yaml, the image and the workflow agree with each other and with the configuration. There
// is no engine here to run them: what they would run is run by test/package/image.package.ts.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { parse } from 'yaml';
import { describeVariables } from '../../src/config/variables.ts';
import { readDockerfile } from '../fixtures/dockerfile.ts';

interface Service {
  image?: string;
  command?: string[];
  volumes?: string[];
  entrypoint?: string[];
  env_file?: string;
  configs?: string[];
  environment?: Record<string, string>;
  secrets?: string[];
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  stop_grace_period?: string;
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test?: string[]; disable?: boolean };
  ports?: string[];
  profiles?: string[];
  mem_limit?: string;
  pids_limit?: number;
  logging?: { options: Record<string, string> };
}

interface Compose {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
  configs: Record<string, { file: string }>;
  volumes: Record<string, null>;
}

interface Step {
  uses?: string;
  run?: string;
  with?: Record<string, unknown>;
  env?: Record<string, string>;
}

interface Workflow {
  permissions: Record<string, string>;
  jobs: Record<
    string,
    {
      strategy?: { matrix: { node: number[] } };
      container?: string;
      steps: Step[];
    }
  >;
}

const root = new URL('../../', import.meta.url);
const read = async <T>(path: string) =>
  parse(await readFile(new URL(path, root), 'utf8'), { merge: true }) as T;
const compose = await read<Compose>('deploy/compose.yaml');
const daemons = ['serve', 'keeper', 'dispatch'];
const isSetting = (variable: string) => ['TRUST_PROXY', 'BILLING_ENV_FILE'].includes(variable);

void t.test(
  'compose starts the daemons after migrating, each with its settings and without secrets in variables',
  async (t) => {
    const settings = new Set(
      [
        ...(await readFile(new URL('deploy/systemd/billing.env', root), 'utf8')).matchAll(
          /^([A-Z_]+)=/gm,
        ),
      ].map(([, name = '']) => name),
    );
    t.same(
      compose.services.postgres?.healthcheck?.test,
      ['CMD', 'pg_isready', '-h', '127.0.0.1', '-U', 'billing'],
      'over TCP, which the server of the initialisation does not listen on',
    );
    t.same(Object.keys(compose.services).toSorted(), [
      'dispatch',
      'grafana',
      'keeper',
      'migrate',
      'postgres',
      'prometheus',
      'serve',
    ]);
    for (const [name, service] of Object.entries(compose.services)) {
      const { image = '', logging, profiles, mem_limit: memory, pids_limit: pids = 0 } = service;
      t.match(memory, /^(512m|[124]g)$/, `${name}: a limit of memory`);
      t.ok(pids >= 64 && pids <= 512, `${name}: a limit of processes and threads`);
      if (image !== 'billing') t.match(image, /^[a-z/]+:[\w.-]+@sha256:[0-9a-f]{64}$/, name);
      t.match(logging?.options, { 'max-size': /^\d+m$/, 'max-file': /^\d$/ }, `${name}: log files`);
      t.equal(profiles !== undefined, ['prometheus', 'grafana'].includes(name), name);
    }
    for (const name of [...daemons, 'migrate']) {
      const service = compose.services[name] ?? {};
      const { environment = {}, secrets = [] } = service;
      t.same(service.command, name === 'migrate' ? ['migrate', '--roles', '/run/roles'] : [name]);
      t.match(service, {
        image: 'billing',
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        configs: ['billing.env'],
        environment: { BILLING_ENV_FILE: '/billing.env' },
        mem_limit: '1g',
        pids_limit: 64,
      });
      t.ok(Number.parseInt(service.stop_grace_period ?? '', 10) > 10, 'work in hand has 10 s');
      t.equal(service.depends_on?.postgres?.condition, 'service_healthy');
      if (name !== 'migrate')
        t.equal(service.depends_on?.migrate?.condition, 'service_completed_successfully');
      t.same(
        Object.entries(environment)
          .flatMap(([variable, value]) => (isSetting(variable) ? [] : [value]))
          .toSorted(),
        secrets.map((secret) => `/run/secrets/${secret}`).toSorted(),
        `${name}: secrets as files`,
      );
      const given = new Set([
        ...Object.keys(environment).map((variable) => variable.replace(/_FILE$/, '')),
        ...settings,
      ]);
      const needed = describeVariables().filter(({ requiredBy }) =>
        requiredBy?.some((role) => role === (name === 'migrate' ? 'admin' : name)),
      );
      for (const variable of needed) t.ok(given.has(variable.name), `${name}: ${variable.name}`);
    }
    t.same(compose.configs, { 'billing.env': { file: 'billing.env' } });
    t.ok(
      Object.values(compose.services).every((service) => service.env_file === undefined),
      'billing reads the file by the rules of systemd; compose would read it by others',
    );
    const defined = Object.keys(compose.secrets).toSorted();
    t.same(
      [
        ...new Set(Object.values(compose.services).flatMap(({ secrets = [] }) => secrets)),
      ].toSorted(),
      defined,
    );
    t.ok(
      Object.values(compose.services).every(({ ports = [] }) =>
        ports.every((port) => port.startsWith('127.0.0.1:')),
      ),
      'nothing is open to the network',
    );
    for (const name of ['postgres', 'prometheus', 'grafana'])
      t.ok(Object.hasOwn(compose.volumes, name), name);
    const monitoring = await read<{
      scrape_configs: { static_configs: { targets: string[] }[] }[];
    }>('deploy/prometheus/compose.yaml');
    t.same(
      monitoring.scrape_configs.flatMap((job) =>
        job.static_configs.flatMap(({ targets }) => targets),
      ),
      daemons.map((name) => `${name}:9464`),
    );
  },
);

void t.test(
  'each daemon in compose uses its role from `billing migrate --roles`, never the database owner',
  (t) => {
    t.same(compose.services.migrate?.volumes, ['./secrets:/run/roles']);
    for (const name of daemons) {
      const secret = `${name}_database_url`;
      const { environment = {}, secrets = [] } = compose.services[name] ?? {};
      t.equal(environment.DATABASE_URL_FILE, `/run/secrets/${secret}`);
      t.equal(compose.secrets[secret]?.file, `secrets/${secret}`, 'where it is written');
      t.same(
        secrets.filter((other) => other.endsWith('database_url')),
        [secret],
      );
    }
    t.end();
  },
);

void t.test(
  'the image is built in stages, runs as its own user, and its health check is /readyz',
  async (t) => {
    const { stages, allowed } = await readDockerfile(fileURLToPath(root));
    const final = stages.at(-1);
    t.ok(stages.length > 1);
    t.equal(final?.steps.find(({ instruction }) => instruction === 'USER')?.text, 'node');
    t.match(
      final?.steps.find(({ instruction }) => instruction === 'HEALTHCHECK')?.text,
      /\/readyz/,
    );
    t.notOk(
      final?.steps.some(({ instruction }) => instruction === 'RUN'),
      'nothing is installed into it that a stage before has not',
    );
    for (const { steps } of stages) {
      for (const { instruction, words } of steps.filter(
        ({ words }) => words[0]?.startsWith('--from') !== true,
      )) {
        if (instruction === 'COPY')
          for (const path of words.slice(0, -1))
            t.ok(allowed.includes(path.replace(/\/.*/, '')), path);
      }
    }
  },
);

void t.test(
  'the GitHub workflow runs .ci/run on Debian with Node 20 and 24, and uses only actions/checkout',
  async (t) => {
    const { jobs, permissions } = await read<Workflow>('.github/workflows/ci.yml');
    t.same(permissions, { contents: 'read' });
    const { suite, image } = jobs;
    t.same(suite?.strategy?.matrix.node, [20, 24]);
    t.equal(suite?.container, 'node:${{ matrix.node }}-bookworm');
    const steps = Object.values(jobs).flatMap(({ steps }) => steps);
    t.same([...new Set(steps.flatMap(({ uses = [] }) => uses))], ['actions/checkout@v4']);
    t.same(
      suite?.steps.flatMap(({ run = [] }) => run),
      ['bash .ci/run'],
    );
    const { scripts } = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const ci = await readFile(new URL('.ci/run', root), 'utf8');
    const called = [...ci.matchAll(/(?:step|beside) .* npm (?:run )?([\w:]+)(?:; then)?$/gm)].map(
      ([, name = '']) => name,
    );
    t.same(called, ['ci', 'check', 'model', 'test', 'test:rest']);
    for (const name of called.slice(1)) t.ok(scripts[name] !== undefined, name);
    t.ok(image?.steps.some(({ run }) => run === 'docker build -t billing .'));
  },
);

void t.test(
  "the keeper's Node options are the same in unit and container, and this Node accepts them",
  async (t) => {
    const unit = await readFile(new URL('deploy/systemd/billing-keeper.service', root), 'utf8');
    const settings = compose.services.keeper?.entrypoint?.slice(1, -2) ?? [];
    t.ok(settings.length > 0);
    t.ok(
      unit.includes(
        `\nExecStart=/usr/bin/node ${settings.join(' ')} -- /opt/billing/bin/billing.js keeper\n`,
      ),
    );
    t.match(await promisify(execFile)(process.execPath, [...settings, '--version']), {
      stdout: process.version,
      stderr: '',
    });
  },
);

void t.test(
  'Grafana finds its data source and the dashboard where compose mounts them',
  async (t) => {
    const { grafana, prometheus } = compose.services;
    const mounted = new Map(
      (grafana?.volumes ?? []).map((volume) => {
        const [from = '', to = ''] = volume.split(':');
        return [to, from.replace(/^\.\//, 'deploy/')];
      }),
    );
    const provisioning = mounted.get('/etc/grafana/provisioning') ?? '';
    const { providers } = await read<{ providers: { type: string; options: { path: string } }[] }>(
      `${provisioning}/dashboards/billing.yaml`,
    );
    t.equal(providers[0]?.type, 'file');
    const path = `${mounted.get(providers[0]?.options.path ?? '') ?? ''}/billing.json`;
    const dashboard = JSON.parse(await readFile(new URL(path, root), 'utf8')) as {
      uid: string;
      title: string;
      schemaVersion: number;
      templating: { list: { name: string; type: string; query: string }[] };
    };
    t.ok(dashboard.uid !== '' && dashboard.title !== '' && dashboard.schemaVersion > 30);
    const { datasources } = await read<{
      datasources: { type: string; url: string; isDefault: boolean; access?: string }[];
    }>(`${provisioning}/datasources/prometheus.yaml`);
    t.match(datasources, [{ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }]);
    t.ok(prometheus?.ports?.every((port) => port.endsWith(':9090')));
    const variable = dashboard.templating.list.find(({ name }) => name === 'datasource');
    t.match(variable, { type: 'datasource', query: datasources[0]?.type });
  },
);
