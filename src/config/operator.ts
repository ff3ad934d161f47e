// Who runs a command: the user of the operating system, behind sudo the one who called it.
import { hostname, userInfo } from 'node:os';

export function operator(env: NodeJS.ProcessEnv = process.env): { who: string; host: string } {
  return { who: env.SUDO_USER ?? userName(), host: hostname() };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container's user may have no name.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
