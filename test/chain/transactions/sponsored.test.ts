import { randomBytes, randomInt } from 'node:crypto';
import {
  PublicKey,
  SystemProgram,
  TransactionInstruction,
  TransactionMessage,
  VersionedMessage,
} from '@solana/web3.js';
import bs58 from 'bs58';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair, type Keypair } from '../../../src/chain/keypair.ts';
import { authorityIn, planIn, subscriptionIn } from '../../../src/chain/program/accounts.ts';
import {
  authorityAddress,
  planAddress,
  subscriptionAddress,
} from '../../../src/chain/program/addresses.ts';
import type { Instruction } from '../../../src/chain/program/instructions.ts';
import type { PlanAccount, SubscriptionAccount } from '../../../src/chain/program/layouts.ts';
import { transactionFee, transfersOf } from '../../../src/chain/transactions/collection.ts';
import { forbiddenChange } from '../../../src/chain/transactions/signed.ts';
import {
  ASSERTION_BYTES,
  leavesRoom,
  readWalletSigned,
  signAsSponsor,
  sponsoredMessage,
  unsignedSponsored,
} from '../../../src/chain/transactions/sponsored.ts';
import {
  cancelInstructions,
  closeInstructions,
  revokeInstructions,
  subscribeInstructions,
  type SubscribeState,
} from '../../../src/chain/transactions/subscriptions.ts';
import { HOUR, startStage } from '../../fixtures/billing.ts';

const program = SUBSCRIPTIONS_PROGRAM;
const forSponsor = (built: Buffer, signed: Buffer) => forbiddenChange(built, signed, 'sponsor');
const [sponsor, wallet] = [generateKeypair(), generateKeypair()];
const [merchant, treasury, mint] = [
  generateKeypair().address,
  generateKeypair().address,
  generateKeypair().address,
];
const plan = planAddress(program, merchant, 42n);
const subscription = subscriptionAddress(program, plan.address, wallet.address).address;
const blockhash = bs58.encode(Buffer.alloc(32, 7));
const LIGHTHOUSE = new PublicKey('L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95');
const budget = { computeUnits: 150_000, unitPrice: 20_000n, loadedDataBytes: 300_000 };
const planAccount: PlanAccount = {
  owner: merchant,
  bump: plan.bump,
  status: 'active',
  planId: 42n,
  mint,
  amount: 5_000_000n,
  periodHours: 720n,
  createdAt: 1_700_000_000n,
  endTs: 0n,
  destinations: [merchant, treasury],
  pullers: [sponsor.address],
  metadataUri: '',
};
const state: SubscribeState = {
  plan: planAccount,
  authority: null,
  hasTokenAccount: true,
  approved: false,
  previous: null,
};
const parties = { subscriber: wallet.address, plan: plan.address, subscription };
const pulls = transfersOf({
  ...parties,
  programId: program,
  mint,
  keeper: sponsor.address,
  merchant,
  treasury,
  net: 4_950_000n,
  fee: 50_000n,
});
const opening = (now: SubscribeState): Instruction[] => [
  ...subscribeInstructions(program, {
    subscriber: wallet.address,
    state: now,
    payer: sponsor.address,
  }).instructions,
  ...pulls,
];
const both = { sponsor: sponsor.address, wallet: wallet.address };
const build = (instructions: readonly Instruction[]) =>
  sponsoredMessage(both, instructions, { blockhash, reference: 'offer 1', budget });
const signed = (message: Buffer, by: Keypair = wallet) =>
  Buffer.concat([Buffer.of(2), Buffer.alloc(64), by.sign(message), message]);

/** The message with instructions behind it, as a wallet compiles it again. */
function appended(message: Buffer, ...more: TransactionInstruction[]): Buffer {
  const decoded = TransactionMessage.decompile(VersionedMessage.deserialize(message));
  decoded.instructions.push(...more);
  return Buffer.from(decoded.compileToLegacyMessage().serialize());
}
const assertion = (...keys: { pubkey: PublicKey; isSigner: boolean; isWritable: boolean }[]) =>
  new TransactionInstruction({ programId: LIGHTHOUSE, keys, data: randomBytes(12) });
const reading = (address: string) => ({
  pubkey: new PublicKey(address),
  isSigner: false,
  isWritable: false,
});

void t.test('a sponsored change of plan leaves 222 bytes free, because it has no memo', (t) => {
  const old = planAddress(program, merchant, 41n);
  const replaced = subscriptionAddress(program, old.address, wallet.address).address;
  const authority = { user: wallet.address, mint, payer: sponsor.address, bump: 255, initId: 9n };
  const instructions = [
    ...cancelInstructions(program, {
      ...{ subscriber: wallet.address, plan: old.address, subscription: replaced },
    }),
    ...opening({ ...state, authority, approved: true }),
  ];
  const withMemo = build(instructions);
  t.equal(1 + 2 * 64 + withMemo.length, 1064);
  t.notOk(leavesRoom(withMemo));
  const message = sponsoredMessage(both, instructions, { blockhash, reference: null, budget });
  t.equal(1 + 2 * 64 + message.length, 1005);
  t.ok(leavesRoom(message));
  t.equal(readWalletSigned(signed(message))?.wallet, wallet.address);
  t.end();
});

void t.test(
  'a sponsored sign-up leaves 222 bytes free, unless a third address paid the rent of a previous account',
  (t) => {
    const lengthOf = (now: SubscribeState) => 1 + 2 * 64 + build(opening(now)).length;
    const authority = { user: wallet.address, mint, payer: sponsor.address, bump: 255, initId: 9n };
    const known = { ...state, authority, approved: true };
    const paidBy = (payer: string) => ({ payer }) as SubscriptionAccount;
    const [own, wallets] = [sponsor.address, wallet.address].map(paidBy);
    const lengths: [number, SubscribeState][] = [
      [1002, state],
      [991, known],
      [1002, { ...known, approved: false }],
      [999, { ...known, previous: own! }],
      [998, { ...known, previous: wallets! }],
      [1010, { ...known, approved: false, previous: own! }],
      [1010, { ...state, previous: own! }],
    ];
    for (const [length, now] of lengths) {
      t.equal(lengthOf(now), length);
      t.ok(leavesRoom(build(opening(now))), `${length} bytes`);
    }
    // The account of the payer takes 32 bytes.
    const tight: [number, SubscribeState][] = [
      [1031, { ...known, previous: paidBy(generateKeypair().address) }],
      [1042, { ...state, previous: paidBy(generateKeypair().address) }],
    ];
    for (const [length, now] of tight) {
      t.equal(lengthOf(now), length);
      t.notOk(leavesRoom(build(opening(now))), `${length} bytes`);
    }
    t.equal(1010 + ASSERTION_BYTES, 1232);
    t.throws(
      () => build([...opening(state), ...pulls, ...pulls, ...pulls, ...pulls]),
      /^the transaction has \d+ bytes, of which the sponsor signs 1232 at most/,
    );
    t.end();
  },
);

void t.test('the sponsor is fee payer, rent payer and puller, and signs for nothing else', (t) => {
  const decoded = TransactionMessage.decompile(VersionedMessage.deserialize(build(opening(state))));
  t.equal(decoded.payerKey.toBase58(), sponsor.address);
  const places = decoded.instructions.flatMap(({ data, keys }) =>
    keys.flatMap(({ pubkey }, index) =>
      pubkey.toBase58() === sponsor.address ? [`${data[0]}:${index}`] : [],
    ),
  );
  t.same(places, ['0:6', '11:8', '10:5', '10:5'], 'init, subscribe, and the two pulls');
  for (const instructions of [
    cancelInstructions(program, parties),
    closeInstructions(program, { ...parties, payer: sponsor.address, revokedMint: mint }),
    revokeInstructions(program, { user: wallet.address, mint }),
  ]) {
    const message = VersionedMessage.deserialize(build(instructions));
    t.equal(message.header.numRequiredSignatures, 2);
    t.equal(message.staticAccountKeys[0]?.toBase58(), sponsor.address);
  }
  t.throws(
    () => build(pulls),
    new RangeError('a sponsored transaction has two signers: the sponsor and the wallet'),
  );
  t.end();
});

void t.test(
  'readWalletSigned reads a sponsored transaction only with the valid signature of its wallet',
  (t) => {
    const message = build(opening(state));
    const read = readWalletSigned(signed(message));
    t.match(read, { ...both, blockhash });
    t.same(read?.message, message);
    const twice = signAsSponsor(sponsor, read!);
    t.equal(transactionFee(twice.bytes), 10_000n + 3_000n);
    t.same(readWalletSigned(twice.bytes)?.message, message, 'with both signatures too');
    t.throws(() => signAsSponsor(wallet, read!), new RangeError('the fee payer is another wallet'));
    t.equal(readWalletSigned(signed(message, sponsor)), undefined, 'signed by another');
    const unsigned = Buffer.from(unsignedSponsored(message), 'base64');
    t.equal(readWalletSigned(unsigned), undefined, 'not signed');
    t.equal(readWalletSigned(signed(message).subarray(0, 200)), undefined, 'cut');
    t.equal(readWalletSigned(Buffer.alloc(0)), undefined);
    const decoded = TransactionMessage.decompile(VersionedMessage.deserialize(message));
    const v0 = Buffer.from(decoded.compileToV0Message().serialize());
    t.equal(readWalletSigned(signed(v0)), undefined, 'version 0');
    t.end();
  },
);

void t.test('the sponsor signs the message it built, also with assertions appended', (t) => {
  const message = build(opening(state));
  const change = (other: Buffer) => forSponsor(message, other);
  t.equal(change(message), undefined);
  t.equal(change(appended(message, assertion(reading(plan.address)))), undefined);
  t.equal(change(appended(message, assertion(reading(generateKeypair().address)))), undefined);
  t.equal(change(appended(message, assertion(), assertion(reading(mint)))), undefined);

  const sign = (address: string, isWritable = false) => ({
    pubkey: new PublicKey(address),
    isSigner: true,
    isWritable,
  });
  const write = (address: string) => ({ ...reading(address), isWritable: true });
  const signer = 'it has an assertion that names a signer';
  t.equal(change(appended(message, assertion(reading(sponsor.address)))), signer);
  t.equal(change(appended(message, assertion(sign(sponsor.address, true)))), signer);
  t.equal(change(appended(message, assertion(reading(wallet.address)))), signer);
  t.equal(
    change(appended(message, assertion(reading(subscription)))),
    'it has an assertion that names a writable account',
  );
  t.equal(
    change(appended(message, assertion(write(generateKeypair().address)))),
    'it makes other accounts writable',
  );
  t.equal(
    change(appended(message, assertion(write(plan.address)))),
    'it makes other accounts writable',
  );
  t.equal(
    change(appended(message, assertion(sign(generateKeypair().address)))),
    'it has other signers',
  );
  const stealing = SystemProgram.transfer({
    fromPubkey: new PublicKey(sponsor.address),
    toPubkey: new PublicKey(wallet.address),
    lamports: 1,
  });
  t.match(
    change(appended(message, stealing)),
    /^it has a further instruction, of the program 1111/,
  );
  t.match(
    change(appended(message, ...Array.from({ length: 16 }, () => assertion()))),
    'it is too long',
  );
  t.end();
});

void t.test('an assertion between the instructions is refused, and so are changed terms', (t) => {
  const message = build(opening(state));
  const decoded = TransactionMessage.decompile(VersionedMessage.deserialize(message));
  decoded.instructions.splice(4, 0, assertion());
  const between = Buffer.from(decoded.compileToLegacyMessage().serialize());
  t.match(forSponsor(message, between), /^its instruction 5 is not the one/);
  const others = [
    build([...opening(state).slice(0, -2)]),
    build([...opening(state), ...pulls.slice(1)]),
    sponsoredMessage(both, opening(state), { blockhash, reference: 'offer 2', budget }),
    sponsoredMessage(both, opening(state), {
      blockhash,
      reference: 'offer 1',
      budget: { ...budget, unitPrice: 30_000n },
    }),
  ];
  for (const other of others) t.type(forSponsor(message, other), 'string');
  const later = { blockhash: bs58.encode(Buffer.alloc(32, 8)), reference: 'offer 1', budget };
  t.equal(
    forSponsor(message, sponsoredMessage(both, opening(state), later)),
    'it has another blockhash',
  );
  const payer = generateKeypair().address;
  const paid = sponsoredMessage(
    { ...both, sponsor: payer },
    cancelInstructions(program, parties),
    later,
  );
  t.ok(forSponsor(build(cancelInstructions(program, parties)), paid));
  t.end();
});

void t.test('the sponsor signs no message with a changed byte', (t) => {
  const message = appended(build(opening(state)), assertion(reading(plan.address)));
  const built = build(opening(state));
  for (let tries = 0; tries < 3000; tries += 1) {
    const changed = Buffer.from(message);
    const index = randomInt(message.length);
    changed[index] = changed[index]! ^ (1 + randomInt(255));
    const phrase = forSponsor(built, changed);
    if (phrase !== undefined) continue;
    // Only the assertion's own bytes, and the account that it reads, are the wallet's.
    const kept = TransactionMessage.decompile(VersionedMessage.deserialize(changed));
    const own = TransactionMessage.decompile(VersionedMessage.deserialize(built));
    t.same(kept.instructions.slice(0, own.instructions.length), own.instructions, `byte ${index}`);
    t.equal(kept.payerKey.toBase58(), sponsor.address);
  }
  t.end();
});

void t.test(
  'a wallet without SOL subscribes and pays in one transaction, and can leave',
  async (t) => {
    const stage = await startStage(t);
    const { net, rpc, keeper } = stage;
    const { programId } = net;
    const shop = await stage.plan();
    const buyer = stage.wallet({ lamports: 0n, usdc: 5_000_000n });
    net.fund(shop.merchant.address, { usdc: 1n });
    const account = subscriptionAddress(programId, shop.pda, buyer.address).address;
    const authority = authorityAddress(programId, buyer.address, net.mint).address;
    const here = { subscriber: buyer.address, plan: shop.pda, subscription: account };
    const signers = { sponsor: keeper.address, wallet: buyer.address };
    const land = async (instructions: readonly Instruction[], reference: string) => {
      const { blockhash: recent } = await rpc.getLatestBlockhash();
      const message = sponsoredMessage(signers, instructions, {
        blockhash: recent,
        reference,
        budget,
      });
      const read = readWalletSigned(signed(message, buyer))!;
      const { bytes, signature } = signAsSponsor(keeper, read);
      await rpc.sendTransaction(bytes);
      await stage.until(`${reference} is confirmed`, async () => {
        const [status] = (await rpc.getSignatureStatuses([signature])).statuses;
        if (status?.err) throw new Error(JSON.stringify(status.err));
        return status?.commitment === 'confirmed' || status?.commitment === 'finalized';
      });
    };
    const found = async (address: string) =>
      (await rpc.getMultipleAccounts([address])).accounts[0]!;
    const before = await rpc.getBalance(keeper.address);
    const onChain = planIn(await found(shop.pda), programId)!;
    await land(
      [
        ...subscribeInstructions(programId, {
          subscriber: buyer.address,
          state: { ...state, plan: onChain },
          payer: keeper.address,
        }).instructions,
        ...transfersOf({
          ...here,
          programId,
          mint: net.mint,
          keeper: keeper.address,
          merchant: shop.merchant.address,
          treasury: stage.treasury.address,
          net: 4_950_000n,
          fee: 50_000n,
        }),
      ],
      'subscribe',
    );
    t.match(subscriptionIn(await found(account), programId), {
      payer: keeper.address,
      amountPulled: 5_000_000n,
      expiresAt: 0n,
    });
    t.equal(authorityIn(await found(authority), programId)?.payer, keeper.address);
    t.equal(await stage.balance(buyer.address), 0n);
    t.equal(await rpc.getBalance(buyer.address), 0n);
    await land(cancelInstructions(programId, here), 'cancel');
    net.passSeconds(721 * HOUR);
    await land(
      closeInstructions(programId, { ...here, payer: keeper.address, revokedMint: net.mint }),
      'close',
    );
    await land(
      revokeInstructions(programId, {
        user: buyer.address,
        mint: net.mint,
        authorityPayer: keeper.address,
      }),
      'revoke',
    );
    const fees = 4n * (10_000n + 3_000n);
    t.equal(before - (await rpc.getBalance(keeper.address)), fees, 'the rent came back');
  },
);
