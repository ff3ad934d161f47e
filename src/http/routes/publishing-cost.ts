import { Type } from '@sinclair/typebox';
import { publishingCost } from '../../domain/plans/publishing-cost.ts';
import { type Api, type ApiDeps, merchantOf } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';

const Lamports = Type.String({ pattern: '^[0-9]+$', examples: ['4308360'] });
const PublishingCost = Type.Object(
  {
    planRent: { ...Lamports, description: 'Deposit for the plan’s account, lamports.' },
    tokenAccountRent: {
      ...Lamports,
      description: 'Deposit for your wallet’s USDC account; 0 where it has one.',
    },
    fee: { ...Lamports, description: 'Network fee, lamports.' },
    total: { ...Lamports, description: 'Sum of these, lamports.' },
    balance: { ...Lamports, description: 'What your wallet holds, lamports.' },
  },
  { title: 'PublishingCost' },
);

/** Registers the route that returns the cost of publishing a plan for the merchant's wallet. */
export function publishingCostRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/publishing-cost',
    {
      schema: {
        summary: 'Read what publishing a plan costs',
        description: 'What your wallet pays to the network in SOL, when it publishes a new plan.',
        tags: ['plans'],
        response: { 200: success(PublishingCost), ...failures(401, 403) },
      },
    },
    async (request) => {
      const { wallet } = merchantOf(request);
      const cost = await publishingCost(deps.chain, { wallet, mint: deps.network.mint });
      return ok({
        planRent: cost.planRent.toString(),
        tokenAccountRent: cost.tokenAccountRent.toString(),
        fee: cost.fee.toString(),
        total: cost.total.toString(),
        balance: cost.balance.toString(),
      });
    },
  );
}
