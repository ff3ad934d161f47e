import { Type } from '@sinclair/typebox';
import { updateMerchant } from '../../db/merchants.ts';
import { absent, type Api, type ApiDeps, merchantOf } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, Name, NameInput, nullable, oneOf, Time, Wallet } from '../fields.ts';

const Email = Type.String({
  format: 'email',
  description: 'Contact for messages of the operator.',
  examples: ['owner@example.com'],
});
const Profile = Type.Object(
  {
    id: Id,
    wallet: Wallet,
    name: nullable(Name),
    email: nullable(Email),
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
          { name: Type.Optional(nullable(NameInput)), email: Type.Optional(nullable(Email)) },
          { additionalProperties: false },
        ),
        response: { 200: success(Profile), ...failures(400, 401, 403) },
      },
    },
    async (request) => {
      const profile = await updateMerchant(sql, merchantOf(request).id, request.body);
      if (profile === undefined) throw absent('merchant');
      return ok(profile);
    },
  );
}
