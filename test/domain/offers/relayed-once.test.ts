// The same signed bytes: relayed once at a time, and a failure is answered again for ten seconds.
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import type { TakenOffer } from '../../../src/domain/offers/relay.ts';
import { relayOnce } from '../../../src/domain/offers/relayed-once.ts';
import { stopClock } from '../../fixtures/clock.ts';
import { startRpcServer } from '../../fixtures/rpc-server.ts';

void t.test(
  'a transaction that failed is not sent again within ten seconds and gets the same response',
  async (t) => {
    const context = { slot: 1000 };
    const server = await startRpcServer(({ method, params }) => {
      switch (method) {
        case 'getSignatureStatuses':
          return { context, value: (params[0] as string[]).map(() => null) };
        case 'simulateTransaction':
          return { context, value: { err: 'InsufficientFundsForFee', logs: [], unitsConsumed: 0 } };
        case 'getEpochInfo':
          return { absoluteSlot: 1000, blockHeight: 900 };
        default:
          return 900;
      }
    });
    const rpc = createRpc({ urls: [server.url], log: pino({ level: 'silent' }) });
    t.teardown(async () => {
      await rpc.close();
      server.close();
    });
    const relayed = relayOnce(rpc);
    const signed = (): TakenOffer => ({
      offer: {
        id: '0198c6a2-0000-7000-8000-000000000001',
        wallet: generateKeypair().address,
        blockhash: 'hash',
        message: Buffer.alloc(10),
        lastValidBlockHeight: 1150n,
        purpose: 'subscribe',
        planId: null,
        subscriptionPda: null,
        checkoutSessionId: null,
        resumes: false,
        replaces: null,
        changeWhen: null,
        cancels: null,
        trialHours: null,
        blockhashSlot: 0n,
        offeredAt: new Date(),
      },
      bytes: randomBytes(200),
      signature: generateKeypair().address,
      lifetime: { blockhash: 'hash', lastValidBlockHeight: 1150n, slot: 0n },
    });
    const [one, other] = [signed(), signed()];
    const failed = { status: 'failed', reason: /too little SOL/ };
    const simulated = () =>
      server.calls.filter(({ method }) => method === 'simulateTransaction').length;

    const pass = stopClock(t);
    const together = await Promise.all([relayed(one), relayed(one), relayed(one)]);
    for (const each of together) t.match(each, failed);
    t.equal(simulated(), 1, 'three at once are one');
    const calls = server.calls.length;
    pass(9_999);
    t.match(await relayed(one), failed);
    t.equal(server.calls.length, calls, 'no request to the chain');
    t.match(await relayed(other), failed);
    t.equal(simulated(), 2, 'other bytes are another transaction');
    pass(1);
    t.match(await relayed(one), failed);
    t.equal(simulated(), 3, 'ten seconds later it is tried again');
  },
);
