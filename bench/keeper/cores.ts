// A chain has a machine of its own. On a machine with few cores the scheduler puts a keeper or Postgres on the chain's core while another idles, for a
// fifth of the time, and what is measured is that: so the chain has a core to itself here, with a keeper as without one.
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

const CHAIN = '0';
const last = availableParallelism() - 1;

/** Lets a process and all its threads run on these cores (Linux, util-linux); false where that cannot be said. */
function allow(pid: number | undefined, cores: string): boolean {
  try {
    execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(pid)], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Leaves the chain's core to it: this process, and what it starts from now on, runs on the others. False where nothing was changed. */
export const leaveCore = () => last > 0 && allow(process.pid, `1-${last}`);

/** Puts a chain on its core. */
export const takeCore = (pid: number | undefined) => allow(pid, CHAIN);

/** This process runs anywhere again. */
export const shareCores = () => allow(process.pid, `0-${last}`);
