// Parameters of libpq that the service does not honour, or honours only with some values. Each
// entry has the operator's next step.
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS

/** Parameters that are accepted only with values that match the service's behaviour. */
export const FIXED: Record<string, { values: readonly string[]; remedy: string }> = {
  channel_binding: {
    values: ['prefer', 'disable'],
    remedy:
      'the driver has no channel binding. Use channel_binding=prefer with sslmode=verify-full, which checks the server by its certificate',
  },
  client_encoding: {
    values: ['UTF8', 'utf8', 'UTF-8', 'utf-8', 'auto'],
    remedy: 'the service needs UTF8. Remove it',
  },
  gssencmode: {
    values: ['disable', 'prefer'],
    remedy: 'encryption by Kerberos is not supported. Use sslmode=verify-full',
  },
  sslcompression: { values: ['0'], remedy: 'TLS is never compressed. Remove it' },
  sslcertmode: {
    values: ['allow'],
    remedy: 'a certificate is sent where sslcert is given and the server asks. Remove it',
  },
  requiressl: { values: ['0'], remedy: 'use sslmode=require' },
  replication: { values: ['false', 'off', 'no', '0'], remedy: 'remove it' },
  min_protocol_version: { values: ['3.0'], remedy: 'the driver speaks version 3.0. Remove it' },
  max_protocol_version: {
    values: ['3.0', '3.2', 'latest'],
    remedy: 'the driver speaks version 3.0. Remove it',
  },
};

const KERBEROS = 'Kerberos is not supported; use a password or sslcert';
const OAUTH = 'sign-in by OAuth is not supported; use a password or sslcert';
const SILENCE = 'the service itself drops a connection that is silent for 10 s. Remove it';
const SERVICE = 'write hosts, user and database into the URL';

/** Refused parameters, each with the text that says what to do instead. */
export const REFUSED: Record<string, string> = {
  passfile: 'write the password into the URL, and the URL into the file of DATABASE_URL_FILE',
  require_auth: "demand the method in the server's pg_hba.conf, and use sslmode=verify-full",
  scram_client_key: 'use password',
  scram_server_key: 'use password',
  requirepeer: "restrict the rights of the socket's directory",
  sslcrldir: 'use sslcrl, which is one file',
  sslkeylogfile: 'remove it',
  service: SERVICE,
  servicefile: SERVICE,
  keepalives_interval: SILENCE,
  keepalives_count: SILENCE,
  tcp_user_timeout: SILENCE,
  krbsrvname: KERBEROS,
  gsslib: KERBEROS,
  gssdelegation: KERBEROS,
  oauth_issuer: OAUTH,
  oauth_client_id: OAUTH,
  oauth_client_secret: OAUTH,
  oauth_scope: OAUTH,
};
