// Deliveries that were read and are not known to be written: the database may still show them as due, and they must not be taken twice.
import type { Lane } from './lane.ts';

export interface InHand {
  /** Takes one for its lane; false when it is in hand already. */
  take(id: string, lane: Lane): boolean;
  /** It is given back unsent. */
  drop(id: string): void;
  /** What became of these is in the database. */
  written(ids: readonly string[]): void;
  /** A read begins. What is written until it ends may still come out of it as due, and stays in hand for so long. */
  readBegins(): void;
  readEnds(): void;
  readonly count: number;
}

export function createInHand(): InHand {
  const lanes = new Map<string, Lane>();
  let reading = false;
  let meanwhile: string[] = [];

  const drop = (id: string) => {
    const lane = lanes.get(id);
    if (lane === undefined) return;
    lanes.delete(id);
    lane.known -= 1;
  };

  return {
    take(id, lane) {
      if (lanes.has(id)) return false;
      lanes.set(id, lane);
      lane.known += 1;
      return true;
    },
    drop,
    written(ids) {
      if (reading) meanwhile.push(...ids);
      else for (const id of ids) drop(id);
    },
    readBegins() {
      reading = true;
    },
    readEnds() {
      reading = false;
      for (const id of meanwhile) drop(id);
      meanwhile = [];
    },
    get count() {
      return lanes.size;
    },
  };
}
