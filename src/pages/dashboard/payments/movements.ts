// The figures that show how monthly recurring revenue (MRR) changed in a range of days, each with
// its definition.
import type { components } from '../../../client/openapi.ts';

type Analytics = components['schemas']['Analytics'];
type Figure =
  | 'mrrBefore'
  | 'mrrNew'
  | 'mrrReactivation'
  | 'mrrExpansion'
  | 'mrrContraction'
  | 'mrrChurn'
  | 'mrr';

export interface Movement {
  readonly id: Figure;
  readonly name: string;
  readonly sign: '' | '+' | '−' | '=';
  readonly units: string;
  readonly meaning: string;
}

const lines: readonly Omit<Movement, 'units'>[] = [
  {
    id: 'mrrBefore',
    name: 'At the start',
    sign: '',
    meaning: 'Amounts of active, paused and past-due subscriptions, per month of 730 hours.',
  },
  {
    id: 'mrrNew',
    name: 'New',
    sign: '+',
    meaning: 'Subscriptions of wallets that had none in this app, or have another one.',
  },
  {
    id: 'mrrReactivation',
    name: 'Reactivation',
    sign: '+',
    meaning: 'Subscriptions of wallets whose earlier ones in this app had all ended.',
  },
  { id: 'mrrExpansion', name: 'Expansion', sign: '+', meaning: 'Changes to a dearer plan.' },
  { id: 'mrrContraction', name: 'Contraction', sign: '−', meaning: 'Changes to a cheaper plan.' },
  {
    id: 'mrrChurn',
    name: 'Churn',
    sign: '−',
    meaning: 'Subscriptions that were cancelled or expired.',
  },
  {
    id: 'mrr',
    name: 'At the end',
    sign: '=',
    meaning: 'All of the above. Each day is rounded down.',
  },
];

/**
 * The definitions of expansion and contraction in the figures of one plan. In these figures,
 * expansion is a change to this plan, and contraction is a change from this plan.
 */
const ofOnePlan: Partial<Record<Figure, string>> = {
  mrrExpansion: 'Changes from another plan to this one.',
  mrrContraction: 'Changes from this plan to another one.',
};

/** Returns the movements of an app or, if `isOfPlan` is true, of one of its plans. */
export const movementsOf = (
  figures: Pick<Analytics, Figure>,
  isOfPlan: boolean,
): readonly Movement[] =>
  lines.map((line) => ({
    ...line,
    units: figures[line.id],
    meaning: (isOfPlan ? ofOnePlan[line.id] : undefined) ?? line.meaning,
  }));
