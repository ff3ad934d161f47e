// No request of a client may cause a 500 or remain without a response, and every response conforms
// to the OpenAPI document (the fixture judges each). The long form makes 20,000 requests, FUZZ_RUNS
// any number; a failure prints the seed and the smallest request that shows it.
import fc from 'fast-check';
import t from 'tap';
import { messageOf } from '../../src/errors.ts';
import { fuzzRequests, fuzzScene, partsOf } from '../fixtures/fuzz.ts';
import { isLong } from '../fixtures/long.ts';

const runs = Number(process.env.FUZZ_RUNS ?? (isLong ? 20_000 : 3000));
const atOnce = 25;

void t.test(
  `${runs} random requests all get a response, and none gets a 500`,
  { timeout: 600_000 },
  async (t) => {
    const scene = await fuzzScene(t);
    let made = 0;
    const broken = { bytes: 0, date: 0, encoding: 0, header: 0 };
    const statuses = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(
        fc.array(await fuzzRequests(scene), { minLength: atOnce, maxLength: atOnce }),
        async (requests) => {
          await Promise.all(
            requests.map(async (request, n) => {
              const { token, damage } = request;
              const isBroken = n % 2 === 0;
              const { method, url, headers, body, isBodiless } = partsOf(request, isBroken);
              const { status, text } = await scene.api.call(method as 'GET', url, {
                token,
                headers,
                ...(isBodiless ? {} : { payload: body }),
              });
              made += 1;
              if (isBroken) broken[damage.kind] += 1;
              statuses.set(status, (statuses.get(status) ?? 0) + 1);
              if (status >= 500)
                throw new Error(
                  `${status}: ${method} ${url} ${request.body.slice(0, 300)} ${JSON.stringify(isBroken ? damage : null)}: ${text}`,
                );
            }),
          );
        },
      ),
      {
        numRuns: Math.ceil(runs / atOnce),
        endOnFailure: true,
        // The requests of a failing round are long; its error says which of them it was.
        reporter: ({ failed, seed, counterexamplePath, errorInstance }) => {
          if (failed)
            throw new Error(
              `${messageOf(errorInstance).slice(0, 2000)} (seed ${seed}, path ${String(counterexamplePath)})`,
            );
        },
      },
    );
    t.ok(made >= runs, `${made} requests: ${JSON.stringify(Object.fromEntries(statuses))}`);
    const counts = Object.values(broken);
    const all = counts.reduce((sum, count) => sum + count);
    t.ok(all >= made / 2 && all < made, `${all} were broken: ${JSON.stringify(broken)}`);
    t.ok(Math.min(...counts) > made / 20, `of each kind: ${JSON.stringify(broken)}`);
    for (const status of [200, 201, 400, 401, 403, 404, 409])
      t.ok(statuses.has(status), `${status} was among the answers`);
  },
);
