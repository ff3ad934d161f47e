import { Type } from '@sinclair/typebox';
import { sumCreditOf } from '../../db/invoices/credits.ts';
import { offerTransaction } from '../../domain/offers/relay.ts';
import { revokingTransaction } from '../../domain/offers/wallet-action.ts';
import { addressSubject } from '../door/addresses.ts';
import { assertReachesAll } from '../door/bound.ts';
import { type Api, type ApiDeps, subscriberOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Amount, nullable, offerFields } from '../shapes/fields.ts';
import {
  askSponsor,
  paidByWallet,
  sponsored,
  sponsoredFields,
} from '../shapes/sponsored-schemas.ts';

export function approvalRoutes(api: Api, deps: ApiDeps): void {
  const { sql, chain, network } = deps;
  api.post(
    '/approval/revoke',
    {
      config: { openToSuspended: true },
      schema: {
        summary: 'Get the transaction that revokes the approval of your wallet',
        description:
          'All subscriptions of a wallet share one approval, those of other apps of the program included. Approving again (repair) restores them. The token of a page of CORS_ORIGINS is FORBIDDEN.',
        tags: ['subscriber'],
        security: [{ walletJwt: [] }],
        body: nullable(
          Type.Object(
            {
              closeAuthority: Type.Optional(
                Type.Boolean({
                  description:
                    'Also close the account that authorizes payments and take its rent back. Every subscription of the wallet then ends for good: no new approval restores it. Default: false.',
                }),
              ),
              sponsored: Type.Optional(sponsored),
            },
            { additionalProperties: false },
          ),
        ),
        response: {
          200: success(
            Type.Object({
              ...offerFields,
              ...sponsoredFields,
              subscriptions: nullable(
                Type.Integer({
                  description:
                    'Number of accounts on chain that can no longer collect afterwards; null when the chain does not tell.',
                }),
              ),
              credit: Type.Optional({
                ...Amount,
                description:
                  'With closeAuthority: sum of the credit of the customers to whom the wallet’s subscriptions belong, in base units. It stays with them for their next subscriptions, each in its app. Absent if there is none.',
              }),
            }),
          ),
          ...failures(400, 401, 403, 409),
        },
      },
    },
    async (request) => {
      assertReachesAll(request);
      const { wallet } = subscriberOf(request);
      const closesAuthority = request.body?.closeAuthority === true;
      const revocation = await revokingTransaction(chain, network, wallet, closesAuthority);
      const { users: subscriptions } = revocation;
      const credit = closesAuthority ? await sumCreditOf(sql, wallet) : 0n;
      const ended = credit > 0n ? { subscriptions, credit } : { subscriptions };
      const { made, ...unsponsored } = await askSponsor(deps, request.body?.sponsored, {
        purpose: 'revoke',
        wallet,
        plan: null,
        withdraws: closesAuthority,
        address: addressSubject(request.ip),
      });
      if (made !== undefined) return ok({ ...made, ...ended });
      const target = { wallet, purpose: 'revoke', planId: null } as const;
      const offer = await offerTransaction(sql, revocation, target);
      return ok({ ...offer, ...paidByWallet(unsponsored), ...ended });
    },
  );
}
