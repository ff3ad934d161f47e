// The loops of sponsoring: several decide about signed offers, one follows what is committed.
import type { Loop } from '../../loop.ts';
import { DECIDERS, type Sponsor } from './sponsor.ts';

export interface SponsorLoops {
  readonly loops: readonly Loop[];
  /** Has the loops look for signed offers now. */
  wake(): void;
}

/** Starts the loops with `start`. They decide about offers only while `maySign` returns true. */
export function startSponsorLoops(
  sponsor: Sponsor,
  maySign: () => boolean,
  start: (name: string, idleMs: () => number, turn: () => Promise<boolean>) => Loop,
): SponsorLoops {
  const following = start(
    'sponsoring',
    () => sponsor.waitMs(),
    () => sponsor.turn(),
  );
  const decide = async () => {
    const decided = maySign() && (await sponsor.decide());
    if (decided) following.wake();
    return decided;
  };
  const deciding = Array.from({ length: DECIDERS }, () =>
    start('deciding on sponsorships', () => sponsor.decideWaitMs(), decide),
  );
  return {
    loops: [following, ...deciding],
    wake() {
      for (const loop of deciding) loop.wake();
    },
  };
}
