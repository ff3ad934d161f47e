import {
  AddressLookupTableAccount,
  ComputeBudgetProgram,
  Keypair,
  SystemProgram,
  Transaction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js';
import fc from 'fast-check';
import t from 'tap';
import { execute } from '../../../../src/local/chain/execute.ts';
import { airdrop } from '../../../../src/local/chain/faucet.ts';
import { offerOf } from '../../../../src/local/chain/fee.ts';
import { addressKey, base58 } from '../../../../src/local/chain/keys.ts';
import { openChain } from '../../../../src/local/chain/open.ts';
import {
  decodeMessage,
  decodeTransaction,
  namesKey,
} from '../../../../src/local/chain/wire/decode.ts';
import {
  accountsOf,
  dataOf,
  isWritable,
  signaturesOf,
} from '../../../../src/local/chain/wire/message.ts';
import { WireError } from '../../../../src/local/chain/wire/reader.ts';

const [payer, other] = [Keypair.generate(), Keypair.generate()];
const blockhash = Keypair.generate().publicKey.toBase58();
const transfer = SystemProgram.transfer({
  fromPubkey: payer.publicKey,
  toPubkey: other.publicKey,
  lamports: 5,
});
const cosigned = SystemProgram.transfer({
  fromPubkey: other.publicKey,
  toPubkey: payer.publicKey,
  lamports: 7,
});

function legacy(recentBlockhash: string, ...instructions: Parameters<Transaction['add']>) {
  const transaction = new Transaction({
    feePayer: payer.publicKey,
    blockhash: recentBlockhash,
    lastValidBlockHeight: 0,
  });
  transaction.add(...instructions);
  transaction.sign(payer, ...(instructions.includes(cosigned) ? [other] : []));
  return transaction;
}

function versioned(recentBlockhash = blockhash, tables: AddressLookupTableAccount[] = []) {
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash,
    instructions: [transfer],
  });
  const transaction = new VersionedTransaction(message.compileToV0Message(tables));
  transaction.sign([payer]);
  return transaction;
}

const table = new AddressLookupTableAccount({
  key: Keypair.generate().publicKey,
  state: {
    deactivationSlot: 2n ** 64n - 1n,
    lastExtendedSlot: 0,
    lastExtendedSlotStartIndex: 0,
    addresses: [other.publicKey],
  },
});

function isRefused(bytes: Buffer): boolean {
  try {
    decodeTransaction(bytes);
    return false;
  } catch (error) {
    if (error instanceof WireError) return true;
    throw error;
  }
}

void t.test('a legacy transaction of web3.js decodes to its own parts', async (t) => {
  const built = legacy(blockhash, transfer, cosigned);
  const compiled = built.compileMessage();
  const { message, bytes, ...rest } = decodeTransaction(built.serialize());
  t.same(
    signaturesOf({ message, bytes, ...rest }).map((signature) => signature.toString('hex')),
    built.signatures.map(({ signature }) => signature!.toString('hex')),
  );
  t.equal(
    base58(rest.id),
    base58(signaturesOf({ message, bytes, ...rest })[0]!.toString('latin1')),
  );
  t.equal(message.version, 'legacy');
  t.equal(message.blockhash, addressKey(blockhash));
  t.same(
    message.keys.map(base58),
    compiled.accountKeys.map((key) => key.toBase58()),
  );
  t.same(
    message.keys.map((_, index) => isWritable(message, index)),
    compiled.accountKeys.map((_, index) => compiled.isAccountWritable(index)),
  );
  t.same(
    message.instructions.map((one) => [
      one.programIndex,
      [...accountsOf(message, one)],
      dataOf(message, one).toString('hex'),
    ]),
    compiled.compiledInstructions.map((one) => [
      one.programIdIndex,
      one.accountKeyIndexes,
      Buffer.from(one.data).toString('hex'),
    ]),
  );
  t.equal(
    bytes.toString('hex', rest.keysAt, rest.keysAt + 32),
    payer.publicKey.toBuffer().toString('hex'),
  );
});

void t.test('a version 0 transaction decodes with its table lookups', async (t) => {
  const built = versioned(blockhash, [table]);
  const decoded = decodeTransaction(Buffer.from(built.serialize()));
  const { message } = decoded;
  t.equal(message.version, 0);
  t.same(
    message.lookups.map((lookup) => ({
      table: base58(lookup.table),
      writable: [...lookup.writable],
      readonly: [...lookup.readonly],
    })),
    [{ table: table.key.toBase58(), writable: [0], readonly: [] }],
  );
  t.equal(
    decoded.bytes.toString('hex', decoded.keysAt, decoded.keysAt + 32),
    payer.publicKey.toBuffer().toString('hex'),
  );
  t.same(
    decodeMessage(Buffer.from(built.message.serialize())).keys,
    message.keys,
    'a message alone too',
  );
});

void t.test('a decoded transaction lists exactly its own account keys', async (t) => {
  const instructions = [transfer, cosigned];
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: blockhash,
    instructions,
  });
  for (const compiled of [message.compileToLegacyMessage(), message.compileToV0Message()]) {
    const signed = new VersionedTransaction(compiled);
    signed.sign([payer, other]);
    const { bytes, keysAt, message: decoded } = decodeTransaction(Buffer.from(signed.serialize()));
    t.equal(decoded.keys.length, 3);
    for (const key of decoded.keys) t.ok(namesKey(bytes, Buffer.from(key, 'latin1')));
    for (let at = 0; at + 32 <= bytes.length; at += 1) {
      const some = bytes.subarray(at, at + 32);
      t.equal(
        namesKey(bytes, some),
        decoded.keys.includes(some.toString('latin1')),
        `32 bytes at ${at}, keys at ${keysAt}`,
      );
    }
    t.notOk(namesKey(bytes, Buffer.from(Keypair.generate().publicKey.toBytes())));
  }
});

void t.test(
  'bytes after a transaction’s end are dropped; a truncated transaction is refused at every length',
  async (t) => {
    const bytes = legacy(blockhash, transfer).serialize();
    t.equal(
      decodeTransaction(Buffer.concat([bytes, Buffer.from([1, 2, 3])])).bytes.length,
      bytes.length,
    );
    for (let length = 0; length < bytes.length; length += 1)
      t.ok(isRefused(bytes.subarray(0, length)), `cut to ${length}`);
  },
);

void t.test('transactions that a validator would not run are refused', async (t) => {
  const bytes = legacy(blockhash, transfer).serialize();
  const header = 65;
  const keysEnd = header + 4 + 3 * 32;
  const changed = (at: number, value: number) => {
    const copy = Buffer.from(bytes);
    copy[at] = value;
    return copy;
  };
  const refused: [string, Buffer][] = [
    ['no signature', Buffer.concat([Buffer.of(0), bytes.subarray(65)])],
    [
      'more signatures than signers',
      Buffer.concat([Buffer.of(2), bytes.subarray(1, 65), bytes.subarray(1)]),
    ],
    ['no signer that may be written', changed(header + 1, 1)],
    ['more read-only accounts than there are', changed(header + 2, 3)],
    ['the payer as program', changed(keysEnd + 32 + 1, 0)],
    ['a program that is not there', changed(keysEnd + 32 + 1, 9)],
    ['an account that is not there', changed(keysEnd + 32 + 3, 9)],
    ['version 5', Buffer.concat([bytes.subarray(0, 65), Buffer.of(0x85), bytes.subarray(65)])],
    [
      'a length in a longer form',
      Buffer.concat([
        bytes.subarray(0, header + 3),
        Buffer.of(0x83, 0),
        bytes.subarray(header + 4),
      ]),
    ],
    ['more than 1232 bytes', Buffer.concat([bytes, Buffer.alloc(1232)])],
  ];
  for (const [name, wrong] of refused) t.ok(isRefused(wrong), name);
});

void t.test('the computed fee of a transaction equals the fee that LiteSVM charges', async (t) => {
  const chain = openChain(0, undefined);
  airdrop(chain, payer.publicKey.toBase58(), 10n ** 12n);
  airdrop(chain, other.publicKey.toBase58(), 10n ** 12n);
  const latest = base58(chain.blocks.at(-2)!.hash);
  const price = (microLamports: number) =>
    ComputeBudgetProgram.setComputeUnitPrice({ microLamports });
  const limit = (units: number) => ComputeBudgetProgram.setComputeUnitLimit({ units });
  const cases = [
    [transfer],
    [transfer, cosigned],
    [price(1_000_001), transfer],
    [price(1), limit(1_000), transfer],
    [price(7_000), limit(3_000_000), transfer],
  ];
  for (const instructions of cases) {
    const transaction = decodeTransaction(legacy(latest, ...instructions).serialize());
    const landed = execute(chain, transaction, true);
    if ('refused' in landed) throw new Error(JSON.stringify(landed.refused));
    const { before, after, fee } = landed.payload!;
    const moved = instructions.includes(cosigned) ? 2n : -5n;
    t.equal(after[0]! - before[0]! - moved, -BigInt(fee));
    t.equal(offerOf(transaction.message).fee, fee);
  }
});

void t.test('no transaction bytes that can be decoded make LiteSVM end the process', async (t) => {
  const chain = openChain(0, undefined);
  airdrop(chain, payer.publicKey.toBase58(), 10n ** 12n);
  const latest = base58(chain.blocks.at(-2)!.hash);
  const seeds = [
    legacy(latest, transfer).serialize(),
    versioned(latest).serialize(),
    versioned(latest, [table]).serialize(),
  ];
  let ran = 0;
  const edit = fc.record({ at: fc.nat(400), value: fc.nat(255), insert: fc.boolean() });
  fc.assert(
    fc.property(
      fc.constantFrom(...seeds),
      fc.array(edit, { minLength: 1, maxLength: 4 }),
      fc.nat(1300),
      (seed, edits, length) => {
        let bytes = Buffer.from(seed);
        for (const { at, value, insert } of edits) {
          const index = at % bytes.length;
          if (insert)
            bytes = Buffer.concat([
              bytes.subarray(0, index),
              Buffer.of(value),
              bytes.subarray(index),
            ]);
          else bytes[index] = value;
        }
        try {
          const transaction = decodeTransaction(length < 100 ? bytes.subarray(0, length) : bytes);
          chain.vm.simulate(transaction.bytes, false);
          execute(chain, transaction, false);
          ran += 1;
        } catch (error) {
          if (!(error instanceof WireError)) throw error;
        }
      },
    ),
    { numRuns: 4_000 },
  );
  t.ok(ran > 500, `${ran} of them ran`);
});
