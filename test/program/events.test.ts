import { Keypair } from '@solana/web3.js';
import t from 'tap';
import { errorOf, EVENT_AUTHORITY, instruction, meta, must, pullOf, setScene, simulate, withData } from '../fixtures/program.ts';

const TAG = Buffer.from('45a52e51cb9a1d', 'hex'); // what follows its first byte, e4

void t.test('nobody can emit an event: the event authority cannot sign a transaction (100), another is 600', async (t) => {
  const scene = setScene();
  const { stranger } = scene;
  const forged = [TAG, Buffer.of(1), Buffer.alloc(72)];
  t.equal(errorOf(scene, [stranger], instruction(0xe4, forged, meta(EVENT_AUTHORITY))), 100);
  t.equal(errorOf(scene, [stranger], instruction(0xe4, forged, meta(stranger.publicKey, 's'))), 600);
  t.equal(errorOf(scene, [stranger], instruction(0xe4, forged)), 113);
});

void t.test('instructions there are none of: 114; no data at all: 112', async (t) => {
  const scene = setScene();
  const known = new Set([0, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 0xe4]);
  for (let number = 0; number < 256; number++) {
    if (known.has(number)) continue;
    t.equal(simulate(scene, [scene.stranger], instruction(number, [])), 114, `instruction ${number}`);
  }
  const empty = withData(instruction(0, []));
  empty.data = Buffer.alloc(0);
  t.equal(simulate(scene, [scene.stranger], empty), 112);
});

void t.test('up to sixteen accounts may be passed; more are refused, not misread', async (t) => {
  const scene = setScene();
  const pull = pullOf(scene, { amount: 1n });
  const surplus = (count: number) => Array.from({ length: count }, () => meta(Keypair.generate().publicKey));
  const longer = (count: number) => Object.assign(withData(pull, pull.data.subarray(1)), { keys: [...pull.keys, ...surplus(count)] });
  must(scene, [scene.keeper], longer(6));
  t.equal(errorOf(scene, [scene.keeper], longer(7)), 114);
});
