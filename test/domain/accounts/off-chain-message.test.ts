// Envelopes of off-chain messages around a sign-in text.
import bs58 from 'bs58';
import fc from 'fast-check';
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { textsOf } from '../../../src/domain/accounts/off-chain-message.ts';
import { isMessageOf, isSignedBy, signInMessage } from '../../../src/domain/accounts/sign-in.ts';
import { envelopes } from '../../fixtures/off-chain-message.ts';

const keypair = generateKeypair();
const wallet = keypair.address;
const other = generateKeypair().address;
const { message } = signInMessage({
  wallet,
  role: 'subscriber',
  page: 'https://shop.test',
  cluster: 'devnet',
  now: new Date(),
});
const text = Buffer.from(message);
const forms = Object.entries(envelopes);
const domains = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes));

void t.test('the text is read from each form of an off-chain message', (t) => {
  for (const [name, build] of forms)
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 600 }), domains, (given, domain) => {
        const bytes = build({ text: Buffer.from(given), signers: [wallet], domain });
        t.ok(textsOf(bytes, wallet).includes(given), name);
      }),
    );
  t.same(textsOf(text, wallet), [message], 'a bare text is its own');
  for (const [name, build] of forms)
    t.ok(isMessageOf(message, build({ text, signers: [wallet] }), wallet), name);
  t.ok(isMessageOf(message, envelopes.legacy({ text, signers: [], format: 1 }), wallet));
  t.end();
});

void t.test(
  'an off-chain message is refused if any byte of its envelope changed after signing',
  (t) => {
    for (const [name, build] of forms) {
      const good = build({ text, signers: [wallet] });
      const signature = bs58.encode(keypair.sign(good));
      t.ok(isSignedBy(wallet, good, signature), name);
      for (let index = 0; index < good.length; index += 1) {
        const bytes = Buffer.from(good);
        bytes.writeUInt8(bytes.readUInt8(index) ^ (1 + (index % 255)), index);
        if (isSignedBy(wallet, bytes, signature)) t.fail(`${name}, byte ${index}`);
      }
    }
    t.end();
  },
);

void t.test(
  'an envelope with any changed byte is refused even if signed, except in its two free fields',
  (t) => {
    const formatPlace = 17;
    const domainPlaces = { from: 17, to: 49 };
    for (const [name, build] of forms) {
      const good = build({ text, signers: [wallet] });
      fc.assert(
        fc.property(
          fc.nat(good.length - 1),
          fc.integer({ min: 1, max: 255 }),
          (index, difference) => {
            const bytes = Buffer.from(good);
            bytes.writeUInt8(bytes.readUInt8(index) ^ difference, index);
            const isFree =
              name === 'version0'
                ? index >= domainPlaces.from && index < domainPlaces.to
                : name === 'legacy' && index === formatPlace && bytes.readUInt8(index) === 1;
            t.equal(isMessageOf(message, bytes, wallet), isFree, `${name}, byte ${index}`);
          },
        ),
        { numRuns: 1000 },
      );
    }
    t.end();
  },
);

void t.test(
  'an off-chain message with a wrong length, other signers or bytes behind its text is refused',
  (t) => {
    const refused = (bytes: Buffer, what: string) =>
      t.notOk(isMessageOf(message, bytes, wallet), what);
    for (const [name, build] of forms) {
      const good = build({ text, signers: [wallet] });
      for (let length = 0; length < good.length; length += 1)
        if (isMessageOf(message, good.subarray(0, length), wallet))
          t.fail(`${name}, cut to ${length}`);
      fc.assert(
        fc.property(fc.uint8Array({ minLength: 1, maxLength: 80 }), (tail) =>
          refused(Buffer.concat([good, tail]), `${name} with a tail`),
        ),
      );
      if (name === 'legacy') continue;
      for (const signers of [[], [other], [wallet, other], [other, wallet], [wallet, wallet]])
        refused(build({ text, signers }), `${name}, ${signers.length} signers`);
    }
    for (const format of [0, 2, 255])
      refused(envelopes.version0({ text, signers: [wallet], format }), `format ${format}`);
    refused(envelopes.legacy({ text, signers: [], format: 2 }), 'legacy, format 2');
    const [first] = forms;
    const nested = envelopes.version1({
      text: first![1]({ text, signers: [] }),
      signers: [wallet],
    });
    refused(nested, 'an envelope in an envelope');
    refused(Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text]), 'a byte order mark');
    refused(Buffer.concat([text.subarray(0, 10), Buffer.of(0xc0)]), 'no UTF-8');
    t.end();
  },
);
