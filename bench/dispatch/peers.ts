// Loads the queues that the dispatcher is compared with. Their packages are in
// bench/dispatch/peers.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { installPackages } from '../../test/fixtures/packages.ts';

export const requirePeer = createRequire(
  join(await installPackages('bench/dispatch/peers'), 'package.json'),
);
