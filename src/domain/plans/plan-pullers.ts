// Updates the pullers of a published plan. After a rotation of the keeper's key, the plan's owner
// adds the new keeper wallet.
import { planIn } from '../../chain/program/accounts.ts';
import { pullersUpdateTransaction } from '../../chain/transactions/plans.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import {
  type ChainReader,
  type BillingAddresses,
  readAccounts,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';
import { pullersOf } from './plans.ts';

/** Maximum number of pullers that the program stores. */
const MAX_PULLERS = 4;

/**
 * Builds the unsigned transaction (base64) with which the owner's wallet sets the service's keepers
 * as the plan's pullers. The former keeper is removed; foreign pullers are kept while there is
 * room. Throws CONFLICT when the pullers would not change or the program would refuse the change,
 * and INTERNAL_ERROR when the chain is unreachable.
 */
export async function pullersTransaction(
  chain: ChainReader,
  network: BillingAddresses,
  plan: PlanRow,
): Promise<Unsigned> {
  const { accounts } = await readAccounts(chain, [plan.planPda]);
  const planOnChain = planIn(accounts[0] ?? null, network.programId);
  if (planOnChain === null || plan.status === 'pending' || plan.status === 'ended')
    throw new ServiceError('CONFLICT', `The plan is ${plan.status}: it has no pullers to change.`);
  const keepers = pullersOf(network);
  const others = planOnChain.pullers.filter(
    (puller) => puller !== plan.puller && !keepers.includes(puller),
  );
  const pullers = [...new Set([...keepers, ...others])].slice(0, MAX_PULLERS);
  const isSame =
    pullers.length === planOnChain.pullers.length &&
    pullers.every((one) => planOnChain.pullers.includes(one));
  if (isSame) throw new ServiceError('CONFLICT', 'The plan names our keepers already.');
  if (planOnChain.status === 'sunset' && !pullers.every((one) => planOnChain.pullers.includes(one)))
    throw new ServiceError(
      'CONFLICT',
      'The plan is sunset: no puller can be added to it any more.',
    );
  const { blockhash, lastValidBlockHeight, slot } = await readBlockhash(chain);
  const transaction = pullersUpdateTransaction(network.programId, {
    plan: plan.planPda,
    seen: planOnChain,
    pullers,
    blockhash,
  });
  return { transaction, blockhash, lastValidBlockHeight, slot };
}
