// Fields of requests and responses about sponsored transactions.
import { type Static, Type } from '@sinclair/typebox';
import { timeOf } from '../../chain/time.ts';
import { amountsAt, type ChangeRequest, readChange } from '../../domain/change/change.ts';
import { type Refusal, refusals } from '../../domain/offers/limits.ts';
import { offerSponsored, type OfferRequest, type SponsorParts } from '../../domain/offers/offer.ts';
import { creditTime } from '../../domain/offers/sponsored-change.ts';
import { offerOpening } from '../../domain/offers/subscribe.ts';
import type { Opening } from '../../domain/registration/opening.ts';
import { changeView } from './change-schemas.ts';
import { Amount, Id, meaning, nullable, offerFields, oneOf, TimeInput } from './fields.ts';

/** The field with which a request asks for a sponsored transaction. */
export const sponsored = Type.Boolean({
  description:
    'Whether the service should pay fee and rent; "notSponsored" tells why it does not. Default: false.',
});

/**
 * The field that tells which amounts the user was shown, in a request for a change of plan. Its
 * value is the `asOf` of these amounts.
 */
export const shownAsOf = {
  ...TimeInput,
  description:
    '"asOf" of the amounts of the change that you were shown: a sponsored transaction then pays exactly these. With one that is too old, the response has others.',
};

/** The query parameter with which a request asks for the costs of a sponsored change of plan. */
export const previewsSponsored = oneOf(
  ['true', 'false'],
  'true: the amounts are those of a sponsored change. Send their "asOf" with the request for its transaction. Default: false.',
);

export const SponsoredInput = nullable(
  Type.Object(
    { sponsored: Type.Optional(sponsored) },
    { title: 'SponsoredInput', additionalProperties: false },
  ),
);

const NotSponsored = nullable(
  Type.Object(
    {
      code: meaning(refusals, 'Machine-readable.'),
      message: Type.String({ description: 'Human-readable; may change.' }),
    },
    { title: 'NotSponsored' },
  ),
);

/** Fields of a response with a transaction, whether the service sponsors the transaction or not. */
export const sponsoredFields = {
  sponsored: Type.Boolean({
    description:
      'Whether the service pays and signs too. If so, do not send it: post it to /subscriber/offers/{offerId}/transaction.',
  }),
  /** Why the transaction is not sponsored although the caller asked for it. Otherwise null. */
  notSponsored: NotSponsored,
};
export const SponsoredOffer = Type.Object(
  {
    ...offerFields,
    ...sponsoredFields,
    credit: Type.Optional({
      ...Amount,
      description:
        'When you cancel: the credit that is left, USDC base units; absent if none is left. It stays with the customer and pays for the other and the next subscriptions in this app. It is not paid out.',
    }),
    cancelled: Type.Optional(
      Type.Boolean({
        description:
          'When you cancel: true if a limit of sponsoring is reached or your wallet has too little SOL, so that the service has cancelled the subscription on its side. Nothing more is collected, and you need not sign.',
      }),
    ),
  },
  { title: 'TransactionOffer' },
);

export const notSponsored = (code: Refusal) => ({ code, message: refusals[code] });

/** Dependencies of a change of plan, and the minimum amount (USDC base units) of a payment. */
type ChangeParts = SponsorParts & { readonly planMinimumAmount: bigint };

/**
 * Makes a sponsored offer if the request asked for one. `made` is the response with the offer. If
 * the offer was refused, `notSponsored` is the reason. Otherwise `notSponsored` is null.
 */
export async function askSponsor(
  parts: SponsorParts,
  isAsked: boolean | undefined,
  request: OfferRequest,
): Promise<
  | { made: Static<typeof SponsoredOffer>; notSponsored: null; creditAt: Date | null }
  | { made: undefined; notSponsored: ReturnType<typeof notSponsored> | null; creditAt: null }
> {
  const unmade = { made: undefined, creditAt: null };
  if (isAsked !== true) return { ...unmade, notSponsored: null };
  const outcome = await offerSponsored(parts, request);
  if ('refusal' in outcome) return { ...unmade, notSponsored: notSponsored(outcome.refusal) };
  const { transaction, offerId, minContextSlot, creditAt } = outcome.offer;
  const offer = { transaction, offerId, minContextSlot };
  const offerView = { ...offer, sponsored: true, notSponsored: null };
  return { made: offerView, notSponsored: null, creditAt };
}

/**
 * Computes what a change of plan costs. For a sponsored change that takes effect now, computes the
 * amounts that its transaction will pay.
 */
export function previewChange(
  { planMinimumAmount: minimum, ...parts }: ChangeParts,
  change: ChangeRequest,
  isSponsored: Static<typeof previewsSponsored> | undefined,
) {
  const isAhead = isSponsored === 'true' && change.when === 'now';
  return readChange(parts, change, minimum, isAhead ? creditTime : undefined);
}

/**
 * Offers a change of plan and computes its costs. If the request asked for a sponsored offer and
 * the offer is refused, the wallet pays for the transaction. Throws as amountsAt() does.
 */
export async function offerChange(
  parts: ChangeParts,
  isAsked: boolean | undefined,
  change: ChangeRequest,
  { opening, from: address, shown }: { opening: Opening; from: string; shown: string | undefined },
) {
  const { sql, planMinimumAmount: minimum } = parts;
  const { old, plan, session, when } = change;
  const { made, creditAt, ...unsponsored } = await askSponsor(parts, isAsked, {
    purpose: 'subscribe',
    wallet: old.subscriberWallet,
    plan,
    session,
    address,
    change: {
      ...change,
      leastPayment: minimum,
      ...(shown !== undefined && { shown: new Date(shown) }),
    },
  });
  const at = creditAt ?? timeOf(opening.view.now);
  const costs = changeView(when, await amountsAt(sql, change, opening, { minimum, at }));
  if (made !== undefined) return { offer: made, costs };
  const replacing = { session, replaces: old.id, changeWhen: when };
  const offer = await offerOpening(parts, opening, replacing);
  return { offer: { ...offer, ...paidByWallet(unsponsored) }, costs };
}

/** Fields of a response with a transaction for which the wallet pays. */
export const paidByWallet = (why: { notSponsored: ReturnType<typeof notSponsored> | null }) => ({
  sponsored: false,
  ...why,
});

const states = {
  offered: 'The wallet has not signed.',
  signed: 'It waits until the service signs and sends it.',
  sent: 'A node has taken it; this state comes back if a fork drops it.',
  processed: 'A node has run it.',
  confirmed: 'The network has confirmed it.',
  final: 'It can no longer be undone; a new subscription is registered and paid.',
  unsponsored:
    'The service does not pay for it at the moment, and "refusal" tells why. Nothing was sent: ask again without "sponsored", and your wallet pays.',
  refused: 'The service did not sign; "reason" tells why. Nothing was sent.',
  failed: 'It failed on the network; nothing was paid.',
  lapsed:
    'It never landed, or the service did not sign it in time: it can land no more, and nothing was paid. Ask for a new offer.',
};

const progressFields = {
  state: oneOf(
    [
      'offered',
      'signed',
      'sent',
      'processed',
      'confirmed',
      'final',
      'unsponsored',
      'refused',
      'failed',
      'lapsed',
    ],
    Object.entries(states)
      .map(([name, text]) => `${name}: ${text}`)
      .join(' '),
  ),
  signature: nullable(
    Type.String({ description: 'The transaction’s signature in Base58, once it is signed.' }),
  ),
  reason: nullable(Type.String({ description: 'Why it was refused or failed.' })),
  refusal: nullable(
    meaning(refusals, 'Why the service did not sign; machine-readable.', 'SponsorshipRefusal'),
  ),
  cancelled: Type.Boolean({
    description:
      'Whether the service has cancelled the subscription on its side because it does not pay for the cancellation. Nothing more is collected, and you need not sign again.',
  }),
  subscriptionId: nullable({
    ...Id,
    description: 'The subscription that it created, once it is final.',
  }),
};
export const Progress = Type.Object(progressFields, { title: 'SponsoredProgress' });

/** A transaction has at most 1,232 bytes, which are 1,644 characters in Base64. */
export const signedTransaction = (description: string) =>
  Type.String({ contentEncoding: 'base64', minLength: 1, maxLength: 1644, description });

export const SignedTransaction = Type.Object(
  {
    transaction: signedTransaction(
      'The offered transaction in Base64 with your wallet’s signature. Your wallet may append instructions of the assertion program that name no signer and no writable account; any other change is VALIDATION_ERROR and named.',
    ),
  },
  { title: 'SignedTransaction', additionalProperties: false },
);

export const progressQuery = Type.Object(
  {
    known: Type.Optional(
      Type.String({
        maxLength: 20,
        description: 'A state: with "wait", the response waits until the state is another one.',
      }),
    ),
    wait: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 8, description: 'Seconds to wait. Default: 0.' }),
    ),
  },
  { additionalProperties: false },
);
