// Finds the person who runs a command: the caller of sudo if SUDO_USER is set, otherwise the user
// of the operating system.
import { hostname, userInfo } from 'node:os';

export function operator(env: NodeJS.ProcessEnv = process.env): { who: string; host: string } {
  return { who: env.SUDO_USER ?? userName(), host: hostname() };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // The user of a container may have no name, so the user's number is returned.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
