// The API's view of customers' credit.
import { Type } from '@sinclair/typebox';
import { movementReasons } from '../../domain/reasons.ts';
import { Amount, Id, meaning, nullable, SignedAmount, Time } from './fields.ts';

const subscriptionId = nullable({
  ...Id,
  description: 'The subscription to which it belongs; null: to none.',
});
const invoiceId = nullable({
  ...Id,
  description: 'The invoice that takes it or gives it back; null for every other reason.',
});
const common = {
  amount: { ...SignedAmount, description: 'USDC base units as a string; negative: less credit.' },
  reason: meaning(movementReasons, 'Why the credit changed.', 'CreditReason'),
  planName: nullable(
    Type.String({
      description: 'Name of the plan whose unused part it is; null for every other reason.',
    }),
  ),
};

export const CreditMovement = Type.Object(
  {
    id: Id,
    customerId: { ...Id, description: 'The customer: GET .../customers/{customerId}.' },
    ...common,
    note: nullable(
      Type.String({ description: 'Your reason of granted and taken_back; null otherwise.' }),
    ),
    notedBy: nullable(
      Type.String({
        description:
          'Who granted it or took it back: your wallet, or the prefix of the API key; null otherwise.',
      }),
    ),
    invoiceId,
    transactionId: nullable({
      ...Id,
      description: 'The payment whose unused part it is; null for every other reason.',
    }),
    subscriptionId,
    createdAt: Time,
  },
  { title: 'CreditMovement' },
);

export const CreditChange = Type.Object(
  {
    ...CreditMovement.properties,
    balance: { ...Amount, description: 'The credit of the customer after it, USDC base units.' },
  },
  { title: 'CreditChange' },
);

/** The view of a movement for the subscriber. It leaves out the merchant's words. */
export const OwnCreditMovement = Type.Object(
  {
    id: Id,
    ...common,
    invoiceId: nullable({
      ...Id,
      description: 'The invoice that takes it or gives it back; null if it is not yours.',
    }),
    subscriptionId: nullable({
      ...Id,
      description: 'The subscription to which it belongs; null: to none of yours.',
    }),
    createdAt: Time,
  },
  { title: 'OwnCreditMovement' },
);
