// HAProxy, etcd and Patroni: those that are installed, or Debian's packages unpacked below .build,
// which takes no rights of root.
import { execFile } from 'node:child_process';
import { access, mkdir, readdir, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const TARGET = fileURLToPath(new URL('../../.build/failover-packages', import.meta.url));
const FOLDERS = ['usr/sbin', 'usr/bin'];
const PROGRAMS = ['haproxy', 'etcd', 'patroni'] as const;
/** The programs' packages, and those that they need beyond a plain Debian with Python. */
const PACKAGES = [
  ...['haproxy', 'liblua5.3-0', 'libopentracing-c-wrapper0', 'libopentracing1', 'etcd-server'],
  ...['patroni', 'python3-click', 'python3-cdiff', 'python3-dateutil', 'python3-dnspython'],
  ...['python3-etcd', 'python3-prettytable', 'python3-psutil', 'python3-psycopg2', 'python3-six'],
  ...['python3-urllib3', 'python3-wcwidth', 'python3-yaml'],
];

export interface Programs {
  paths: Record<(typeof PROGRAMS)[number], string>;
  /** The environment that they need. */
  env: Record<string, string>;
}

/** Returns the programs, or a text that names what is missing. */
export async function findPrograms(): Promise<Programs | { missing: string }> {
  const system = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/bin'];
  const installed = await findAll(system);
  if (installed !== undefined) return { paths: installed, env: {} };
  const unpacked = FOLDERS.map((folder) => join(TARGET, folder));
  try {
    if ((await findAll(unpacked)) === undefined) await unpack();
  } catch (error) {
    return {
      missing: `${PROGRAMS.join(', ')} are not all installed (apt-get install haproxy etcd-server patroni), and their packages cannot be fetched: ${String(error)}`,
    };
  }
  const paths = await findAll(unpacked);
  if (paths === undefined) return { missing: `the packages in ${TARGET} lack a program` };
  const libraries = (await readdir(join(TARGET, 'usr/lib'))).map((name) =>
    join(TARGET, 'usr/lib', name),
  );
  return {
    paths,
    env: {
      LD_LIBRARY_PATH: libraries.join(':'),
      PYTHONPATH: join(TARGET, 'usr/lib/python3/dist-packages'),
    },
  };
}

async function unpack(): Promise<void> {
  const archives = join(TARGET, 'archives');
  await rm(TARGET, { recursive: true, force: true });
  await mkdir(archives, { recursive: true });
  await run('apt-get', ['download', '-q', ...PACKAGES], { cwd: archives });
  for (const name of await readdir(archives))
    await run('dpkg-deb', ['-x', join(archives, name), TARGET]);
}

/** The paths of all programs, or undefined when one is in none of the folders. */
async function findAll(folders: readonly string[]): Promise<Programs['paths'] | undefined> {
  const found = await Promise.all(PROGRAMS.map((name) => find(name, folders)));
  const [haproxy, etcd, patroni] = found;
  if (haproxy === undefined || etcd === undefined || patroni === undefined) return undefined;
  return { haproxy, etcd, patroni };
}

async function find(name: string, folders: readonly string[]): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, name);
    if (
      await access(path)
        .then(() => true)
        .catch(() => false)
    )
      return path;
  }
  return undefined;
}
