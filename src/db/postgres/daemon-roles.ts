// The roles of Postgres that a production installation has: one for each daemon, and one for
// `billing reconcile`. roles.ts grants their rights.

export const daemonRoles = ['serve', 'keeper', 'dispatch', 'reconcile'] as const;

export type DaemonRole = (typeof daemonRoles)[number];
