// Parses the URL of a Postgres database as libpq does. The URL may have several hosts with ports,
// IPv6 addresses and Unix sockets. The documented parameters of libpq are honoured, any other one
// is refused by name. Error messages contain no text of the URL, because any part of a mistyped URL
// may be the password.
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';

const TARGETS = ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'] as const;
/** The kind of server that a session needs (`target_session_attrs`). */
export type Target = (typeof TARGETS)[number];

const TLS_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;

export interface PostgresHost {
  /** A host name, an IP address, or the directory of a Unix socket, which starts with "/". */
  name: string;
  port: number;
}

/** TLS parameters. rootCert, cert and key are file paths. */
export interface PostgresTls {
  mode: (typeof TLS_MODES)[number];
  rootCert: string | undefined;
  cert: string | undefined;
  key: string | undefined;
}

export interface PostgresUrl {
  /** The hosts in the order of the URL; at least one. */
  hosts: readonly [PostgresHost, ...PostgresHost[]];
  user: string;
  password: string | undefined;
  database: string;
  /**
   * The kind of server that the session needs (`target_session_attrs`). If the URL has several
   * hosts, the default is `primary`. libpq's default is always `any`.
   */
  target: Target;
  tls: PostgresTls;
  /** Time limit for connecting to one host, ms. */
  connectMs: number;
  applicationName: string | undefined;
  /** Command-line options of the session, such as "-c work_mem=64MB". */
  options: string | undefined;
}

const DEFAULT_PORT = 5432;
/**
 * Default time limit for connecting to one host. If a host is frozen, the next host is tried after
 * this time.
 */
const CONNECT_SECONDS = 5;
const MAX_CONNECT_SECONDS = 60;
const SOCKET_DIRECTORY = '/var/run/postgresql';

type Parameters = Map<string, string>;

/**
 * Parses a URL. Throws an Error that states the expected form. The caller puts the variable's name
 * before the error's message.
 */
export function parsePostgresUrl(url: string): PostgresUrl {
  const parameters = parametersOf(url);
  const hosts = hostsOf(parameters);
  const user = parameters.get('user') ?? userInfo().username;
  const rootCert = parameters.get('sslrootcert');
  return {
    hosts,
    user,
    password: parameters.get('password'),
    database: parameters.get('dbname') ?? user,
    target:
      choice(parameters, 'target_session_attrs', TARGETS) ?? (hosts.length > 1 ? 'primary' : 'any'),
    tls: {
      mode: tlsModeOf(parameters, rootCert),
      rootCert: rootCert === 'system' ? undefined : rootCert,
      cert: parameters.get('sslcert'),
      key: parameters.get('sslkey'),
    },
    connectMs:
      1000 *
      (wholeNumber(parameters, 'connect_timeout', 1, MAX_CONNECT_SECONDS) ?? CONNECT_SECONDS),
    applicationName: parameters.get('application_name'),
    options: parameters.get('options'),
  };
}

/** Returns the URL of a replica unchanged. Throws as parsePostgresUrl does. */
export function replicaUrl(url: string): string {
  parsePostgresUrl(url);
  return url;
}

/**
 * Returns the URL unchanged. Throws an Error when its target_session_attrs excludes the primary,
 * because the service writes.
 */
export function primaryUrl(url: string): string {
  if (!['any', 'primary', 'read-write'].includes(parsePostgresUrl(url).target))
    throw new Error(
      'has a target_session_attrs that excludes the primary, and the service writes: use primary (the default with several hosts) or read-write',
    );
  return url;
}

/** Returns a URL of the same database with another user and password. */
export function withUser(url: string, user: string, password: string): string {
  const { database } = parsePostgresUrl(url);
  const { scheme, rest } = partsOf(url);
  const [server, query] = splitOnce(rest, '?');
  const [authority] = splitOnce(server, '/');
  const others = (query ?? '')
    .split('&')
    .filter((pair) => !/^(user|password|dbname)?(=|$)/.test(pair));
  const [name, secret, target] = [user, password, database].map(encodeURIComponent);
  const suffix = others.length === 0 ? '' : `?${others.join('&')}`;
  return `${scheme}${name}:${secret}@${authority}/${target}${suffix}`;
}

/** Returns the hosts, ports and database of a URL as text, without the credentials. */
export function describeDatabase(url: string): string {
  const { hosts, database } = parsePostgresUrl(url);
  return `${hosts.map(describeHost).join(', ')}, database "${database}"`;
}

export function describeHost({ name, port }: PostgresHost): string {
  return `${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/**
 * Splits a URL into scheme, credentials and rest. Like libpq, this function looks for the
 * credentials in the text before the first "/" after the scheme.
 */
function partsOf(url: string): { scheme: string; credentials: string | undefined; rest: string } {
  const scheme = /^postgres(ql)?:\/\//.exec(url)?.[0];
  if (scheme === undefined)
    throw new Error('must be a URL that starts with postgres:// or postgresql://');
  const all = url.slice(scheme.length);
  const [, credentials, rest = all] = /^([^@/]*)@(.*)$/s.exec(all) ?? [];
  return { scheme, credentials, rest };
}

function parametersOf(url: string): Parameters {
  const { credentials, rest } = partsOf(url);
  const parameters: Parameters = new Map();
  const set = (name: string, value: string) => {
    const text = decode(value);
    if (text !== '') parameters.set(name, text);
  };
  if (credentials !== undefined) {
    const [user, password = ''] = splitOnce(credentials, ':');
    set('user', user);
    set('password', password);
  }
  const [server, query] = splitOnce(rest, '?');
  const [authority, database = ''] = splitOnce(server, '/');
  const entries = authority.split(',').map(readAuthority);
  // Without this check, the first part of a password with a "/" would count as a host and a port,
  // which later messages name.
  if (credentials === undefined && rest.includes('@'))
    throw new Error(
      'has an @ after a /: a / in the user name or the password is written %2F, and an @ elsewhere %40',
    );
  set('host', entries.map(({ name }) => name).join());
  if (entries.some(({ port }) => port !== '')) set('port', entries.map(({ port }) => port).join());
  set('dbname', database);
  for (const pair of (query ?? '').split('&').filter((text) => text !== '')) {
    const [name, value] = splitOnce(pair, '=');
    const parameter = decode(name);
    check(parameter, value === undefined ? undefined : decode(value));
    set(parameter, value ?? '');
  }
  return parameters;
}

/** Splits "host:port" or "[IPv6]:port". */
function readAuthority(text: string): { name: string; port: string } {
  const found = /^(?:\[([0-9a-fA-F:.]+(?:%25[\w.-]+)?)\]|([^:[\]@]*))(?::(\d*))?$/.exec(text);
  if (found === null)
    throw new Error(
      'must have hosts such as db1:5432,db2:5432 or [fd00::1]:5432 after the user and password, in which / : @ and % are written %2F %3A %40 and %25',
    );
  return { name: found[1] ?? found[2] ?? '', port: found[3] ?? '' };
}

/** https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS */
const HONOURED = [
  ...['user', 'password', 'dbname', 'host', 'port', 'target_session_attrs', 'connect_timeout'],
  ...['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'application_name', 'options'],
];

/** Throws an Error unless the service honours the parameter. */
function check(name: string, value: string | undefined): void {
  const shown = /^[a-z]+(_[a-z]+)*$/i.test(name) ? `the parameter ${name}` : 'a parameter';
  if (!HONOURED.includes(name))
    throw new Error(
      `has ${shown}, which is not supported: remove it. Supported are ${HONOURED.join(', ')}. A setting of the session is written options=-c%20name%3Dvalue, and ? and & of a password are written %3F and %26`,
    );
  if (value === undefined) throw new Error(`has ${shown} without a value: write ${name}=...`);
}

function hostsOf(parameters: Parameters): [PostgresHost, ...PostgresHost[]] {
  const names = parameters.get('host')?.split(',') ?? [''];
  const ports = parameters.get('port')?.split(',') ?? [''];
  if (ports.length > 1 && ports.length !== names.length)
    throw new Error(
      `has ${names.length} hosts and ${ports.length} ports: give one port for all, or one for each`,
    );
  const hosts = names.map((name, at) => ({
    name: hostName(name),
    port: portOf(ports[ports.length > 1 ? at : 0] ?? ''),
  }));
  return hosts as [PostgresHost, ...PostgresHost[]];
}

/**
 * Returns the host's name. An empty name means the Unix socket of this machine's Postgres, or
 * localhost if this machine has no such socket.
 */
function hostName(name: string): string {
  if (name.startsWith('@'))
    throw new Error('has a socket in the abstract namespace: give the directory of a Unix socket');
  if (name !== '') return name;
  return existsSync(SOCKET_DIRECTORY) ? SOCKET_DIRECTORY : 'localhost';
}

function portOf(text: string): number {
  const port = text === '' ? DEFAULT_PORT : Number(text);
  if (!/^\d*$/.test(text) || port < 1 || port > 65_535)
    throw new Error('has a port that is not a number from 1 to 65535');
  return port;
}

/**
 * Returns the TLS mode. Without `sslmode`, the mode is `disable`, or `verify-full` if the URL has
 * sslrootcert=system. `require` with a root certificate means `verify-ca`.
 */
function tlsModeOf(parameters: Parameters, rootCert: string | undefined): PostgresTls['mode'] {
  const mode = choice(parameters, 'sslmode', TLS_MODES);
  if (rootCert === 'system') {
    if (mode === undefined || mode === 'verify-full') return 'verify-full';
    throw new Error('has sslrootcert=system, which needs sslmode=verify-full');
  }
  return mode === 'require' && rootCert !== undefined ? 'verify-ca' : (mode ?? 'disable');
}

function choice<const T extends string>(
  parameters: Parameters,
  name: string,
  options: readonly T[],
): T | undefined {
  const value = parameters.get(name);
  const found = options.find((option) => option === value);
  if (value !== undefined && found === undefined)
    throw new Error(`has ${name}, which must be one of ${options.join(', ')}`);
  return found;
}

function wholeNumber(
  parameters: Parameters,
  name: string,
  min: number,
  max: number,
): number | undefined {
  const value = parameters.get(name);
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < min || number > max)
    throw new Error(`has ${name}, which must be a number of seconds from ${min} to ${max}`);
  return number;
}

function decode(text: string): string {
  try {
    const decoded = decodeURIComponent(text);
    if (!decoded.includes('\0')) return decoded;
  } catch {
    // decodeURIComponent throws when a "%" does not begin an encoded UTF-8 character.
  }
  throw new Error('has a % that begins no percent-encoded character: write %25 for %');
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + separator.length)];
}
