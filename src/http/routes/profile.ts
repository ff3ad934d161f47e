import { Type } from '@sinclair/typebox';
import { updateMerchant } from '../../db/accounts/merchants.ts';
import { deleteBuyerDetails } from '../../db/money/receipts.ts';
import { absent, type Api, type ApiDeps, merchantOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, Name, NameInput, nullable, oneOf, Time, Wallet } from '../shapes/fields.ts';

const Email = Type.String({
  format: 'email',
  description:
    'Contact for messages of the operator, and for e-mails about failures, once the link in the confirmation was opened. To get the confirmation again, send the same address again.',
  examples: ['owner@example.com'],
});
const mails = Type.Boolean({
  description:
    'Whether e-mails are sent to it when a webhook fails or is disabled, a plan is blocked, and once a day about failed payments, if the operator sends e-mail.',
});
const legalName = Type.String({
  format: 'display-name',
  description: 'The seller on receipts. Without it, your name or that of the app.',
  examples: ['Coffee Ltd'],
});
const legalAddress = Type.String({
  format: 'short-text',
  description: 'Your address on receipts, up to 500 characters, on several lines.',
  examples: ['1 High Street\nLondon'],
});
const taxId = Type.String({
  format: 'receipt-line',
  description: 'Your tax id on receipts, up to 60 characters.',
  examples: ['GB 123 4567 89'],
});
const keepBuyerDetails = Type.Boolean({
  description:
    'Whether the name, address, tax id and note that a buyer types on a receipt are stored and shown on the later ones. Default: false, they are on the printed page only. With false, stored ones are deleted.',
});
const Profile = Type.Object(
  {
    id: Id,
    wallet: Wallet,
    name: nullable(Name),
    email: nullable(Email),
    emailConfirmed: Type.Boolean({
      description:
        'Whether the address was confirmed. Until then only confirmations are sent to it, at most three a day.',
    }),
    mails,
    legalName: nullable(legalName),
    legalAddress: nullable(legalAddress),
    taxId: nullable(taxId),
    keepBuyerDetails,
    tier: oneOf(['free', 'pro'], 'Rate limit and CSV export; set by the operator.'),
    createdAt: Time,
  },
  { title: 'Profile' },
);
const tags = ['profile'];

export function profileRoutes(api: Api, { sql }: ApiDeps): void {
  api.get(
    '/profile',
    {
      schema: {
        summary: 'Read the profile',
        tags,
        response: { 200: success(Profile), ...failures(401, 403) },
      },
    },
    // Authentication has read the merchant's row for this request, so the row is current.
    async (request) => ok(merchantOf(request)),
  );

  api.patch(
    '/profile',
    {
      schema: {
        summary: 'Change the profile',
        description:
          'Omitted fields keep their values; null clears a field. The tier is read-only.',
        tags,
        body: Type.Object(
          {
            name: Type.Optional(nullable(NameInput)),
            email: Type.Optional(nullable(Email)),
            mails: Type.Optional(mails),
            legalName: Type.Optional(nullable(legalName)),
            legalAddress: Type.Optional(nullable(legalAddress)),
            taxId: Type.Optional(nullable(taxId)),
            keepBuyerDetails: Type.Optional(keepBuyerDetails),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Profile), ...failures(400, 401, 403) },
      },
    },
    async (request) => {
      const { id } = merchantOf(request);
      const profile = await sql.begin(async (tx) => {
        const updated = await updateMerchant(tx, id, request.body);
        if (request.body.keepBuyerDetails === false) await deleteBuyerDetails(tx, id);
        return updated;
      });
      if (profile === undefined) throw absent('merchant');
      return ok(profile);
    },
  );
}
