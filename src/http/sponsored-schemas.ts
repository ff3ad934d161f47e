// Fields of requests and responses about sponsored transactions.
import { type Static, Type } from '@sinclair/typebox';
import { type Refusal, refusals } from '../domain/sponsoring/limits.ts';
import type { OfferRequest } from '../domain/sponsoring/offer.ts';
import { offerSponsored } from '../domain/sponsoring/offer.ts';
import type { ApiDeps } from './context.ts';
import { Id, meaning, nullable, offerFields, oneOf } from './fields.ts';

/** The field with which a request asks for a sponsored transaction. */
export const sponsored = Type.Boolean({
  description:
    'Whether the service should pay fee and rent; "notSponsored" tells why it does not. Default: false.',
});

export const SponsoredInput = nullable(
  Type.Object({ sponsored: Type.Optional(sponsored) }, { additionalProperties: false }),
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
  { ...offerFields, ...sponsoredFields },
  { title: 'TransactionOffer' },
);

export const notSponsored = (code: Refusal) => ({ code, message: refusals[code] });

/**
 * Makes a sponsored offer if the request asked for one. Returns the response in `made`. Without an
 * offer, `notSponsored` has the reason. The reason is null if the request did not ask for an offer.
 */
export async function askSponsor(
  deps: ApiDeps,
  isAsked: boolean | undefined,
  request: OfferRequest,
): Promise<
  | { made: Static<typeof SponsoredOffer>; notSponsored: null }
  | { made: undefined; notSponsored: ReturnType<typeof notSponsored> | null }
> {
  if (isAsked !== true) return { made: undefined, notSponsored: null };
  const outcome = await offerSponsored(deps, request);
  if ('refusal' in outcome) return { made: undefined, notSponsored: notSponsored(outcome.refusal) };
  const { transaction, offerId, minContextSlot } = outcome.offer;
  const offer = { transaction, offerId, minContextSlot };
  return { made: { ...offer, sponsored: true, notSponsored: null }, notSponsored: null };
}

/** Fields of a response with a transaction for which the wallet pays. */
export const paidByWallet = (why: { notSponsored: ReturnType<typeof notSponsored> | null }) => ({
  sponsored: false,
  ...why,
});

const states = {
  offered: 'The wallet has not signed.',
  signed: 'It waits for a keeper.',
  sent: 'The service has signed and sent it.',
  processed: 'A node has run it.',
  confirmed: 'The network has confirmed it.',
  final: 'It can no longer be undone; a new subscription is registered and paid.',
  refused: 'The service did not sign; "reason" tells why. Nothing was sent.',
  failed: 'It failed on the network; nothing was paid.',
  lapsed: 'It never landed; ask for a new offer.',
};

const progressFields = {
  state: oneOf(
    ['offered', 'signed', 'sent', 'processed', 'confirmed', 'final', 'refused', 'failed', 'lapsed'],
    Object.entries(states)
      .map(([name, text]) => `${name}: ${text}`)
      .join(' '),
  ),
  signature: nullable(
    Type.String({ description: 'The transaction’s signature in Base58, once it is signed.' }),
  ),
  reason: nullable(Type.String({ description: 'Why it was refused or failed.' })),
  subscriptionId: nullable({
    ...Id,
    description: 'The subscription that it created, once it is final.',
  }),
};
export const Progress = Type.Object(progressFields, { title: 'SponsoredProgress' });

export const SignedTransaction = Type.Object(
  {
    transaction: Type.String({
      contentEncoding: 'base64',
      minLength: 1,
      maxLength: 1644,
      description:
        'The offered transaction in Base64 with your wallet’s signature. Your wallet may append instructions of the assertion program that name no signer and no writable account; any other change is VALIDATION_ERROR and named.',
    }),
  },
  { additionalProperties: false },
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
