// `npm run soak`: the long soak. Prints the result, as one JSON object with --json, and exits with
// 1 on any breach.
import { parseArgs } from 'node:util';
import { soak } from './soak.ts';

const usage =
  'usage: npm run soak -- [--seed 1] [--payments 100000] [--subscriptions 5000] [--keepers 4] [--most-lamports 700] [--half-price] [--credits] [--pooler] [--calm] [--keep-data] [--json]';

function wholeNumber(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= (name === 'seed' ? 0 : 1)) return value;
  console.error(`--${name} is a whole number, not ${text}\n${usage}`);
  process.exit(2);
}

function flags() {
  try {
    const [string, boolean] = [{ type: 'string' } as const, { type: 'boolean' } as const];
    const numbers = {
      seed: string,
      payments: string,
      subscriptions: string,
      keepers: string,
      'most-lamports': string,
    };
    return parseArgs({
      options: {
        ...numbers,
        'half-price': boolean,
        credits: boolean,
        pooler: boolean,
        calm: boolean,
        'keep-data': boolean,
        json: boolean,
      },
    }).values;
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${usage}`);
    process.exit(2);
  }
}

const { json = false, calm, credits, pooler, ...flagged } = flags();
const { 'half-price': halfPrice, 'keep-data': keepData, ...given } = flagged;
const stopping = new AbortController();
process.once('SIGINT', () => {
  console.error('stopping: what there is by now is judged');
  stopping.abort();
});
const { result, breaches } = await soak({
  seed: wholeNumber('seed', given.seed, 1),
  payments: wholeNumber('payments', given.payments, 100_000),
  subscriptions: wholeNumber('subscriptions', given.subscriptions, 5000),
  keepers: wholeNumber('keepers', given.keepers, 4),
  maxLamports: wholeNumber('most-lamports', given['most-lamports'], 700),
  ...(calm !== undefined && { calm }),
  ...(halfPrice !== undefined && { halfPrice }),
  ...(credits !== undefined && { credits }),
  ...(pooler !== undefined && { pooler }),
  ...(keepData !== undefined && { keepData }),
  signal: stopping.signal,
  report: (line) => console.error(line),
});
if (json) console.log(JSON.stringify(result));
else console.log(result);
if (halfPrice === true)
  console.error(
    `${result.pullsBooked} of ${result.pullsOnChain - result.foreignPullsUnregistered} pulls on the chain are in the books`,
  );
for (const breach of breaches) console.error(`breached: ${breach}`);
process.exit(breaches.length === 0 ? 0 : 1);
