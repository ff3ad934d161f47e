// The part of /account that changes a subscription's plan. It shows the costs before the wallet
// signs.
import { type ReactElement, useState } from 'react';
import {
  ChangeCosts,
  type Change,
  OtherAmounts,
  refuseOtherAmounts,
} from '../shared/change-costs.tsx';
import { explain, type Explanation } from '../shared/errors.ts';
import { Lacking } from '../shared/lacking.tsx';
import { words } from '../shared/language.ts';
import { type Approval, OtherApproval } from '../shared/other-approval.tsx';
import { Button, Explained, Notice, Spinner, Usdc } from '../shared/parts.tsx';
import { everyPeriod } from '../shared/period.ts';
import { type Session, submit, type Subscription } from '../shared/session.ts';
import { foreign } from '../shared/text.ts';
import { problemOf, readStanding, unseenText } from './actions.ts';
import { isReplaced, readChanges, refuseLacking, type Choice, WalletLacks } from './changes.ts';

/** Lets the subscriber choose another plan, and whether the change starts now or later. */
export function ChangePlan({
  session,
  subscription,
  named,
  onChanged,
}: {
  session: Session;
  subscription: Subscription;
  /** Delegate of the approval that the card already says would be replaced. */
  named: string | undefined;
  onChanged: () => void;
}): ReactElement {
  const [choices, setChoices] = useState<readonly Choice[]>();
  const [chosen, setChosen] = useState<{
    plan: Choice;
    changes: readonly Change[];
    replaces: Approval | null;
  }>();
  const [step, setStep] = useState<'preparing' | 'confirm' | 'waiting'>();
  const [problem, setProblem] = useState<() => Explanation>();
  const [lacking, setLacking] = useState<WalletLacks>();
  const text = words.change;
  const path = { subscriptionId: subscription.id };

  const attempt = (work: () => Promise<void>) => {
    setProblem(undefined);
    setLacking(undefined);
    setStep('preparing');
    work().then(
      () => setStep(undefined),
      (error: unknown) => {
        setStep(undefined);
        if (error instanceof OtherAmounts) showOther(error.change);
        else if (error instanceof WalletLacks) setLacking(error);
        else setProblem(() => () => explain(error));
      },
    );
  };
  /**
   * Shows the costs `other` instead of the costs that the page showed before. The user thus sees
   * the new costs before the wallet asks for a signature.
   */
  const showOther = (other: Change) => {
    setChosen((before) =>
      before === undefined
        ? undefined
        : {
            ...before,
            changes: before.changes.map((one) => (one.when === other.when ? other : one)),
          },
    );
    setProblem(() => () => ({ text: text.terms }));
  };
  const list = () =>
    attempt(async () => {
      const plans = '/subscriber/subscriptions/{subscriptionId}/plans';
      setChoices(await session.client.get(plans, { path }));
    });
  const choose = (plan: Choice) =>
    attempt(async () => {
      const [changes, { replaces }] = await Promise.all([
        readChanges(session, subscription.id, plan.id),
        readStanding(session, subscription),
      ]);
      setChosen({ plan, changes, replaces });
    });
  const change = (planId: string, shown: Change) =>
    attempt(async () => {
      const { when, asOf } = shown;
      const ask = async (sponsored: boolean) => {
        const route = '/subscriber/subscriptions/{subscriptionId}/change';
        const body = { planId, when, sponsored, asOf };
        const offer = await session.client.post(route, { path, body });
        refuseOtherAmounts(shown, { sponsored: offer.sponsored, change: offer });
        await refuseLacking(session, planId, { today: shown.today, needsSol: !offer.sponsored });
        return offer;
      };
      const submitted = await submit(session, ask, (name) =>
        setStep(name === 'sign' ? 'confirm' : 'waiting'),
      );
      const failure = problemOf(submitted);
      if (failure !== undefined) {
        setProblem(() => failure);
        return;
      }
      if (await isReplaced(session, subscription.id)) onChanged();
      else setProblem(() => unseenText(submitted));
    });
  const isBusy = step !== undefined;

  return (
    <section className="change" aria-label={text.title}>
      {choices === undefined && (
        <Button kind="link" disabled={isBusy} onClick={list}>
          {text.title}
        </Button>
      )}
      {(choices ?? step ?? problem) !== undefined && (
        <div className="change-steps">
          {choices?.length === 0 && <p className="muted">{text.none}</p>}
          {choices?.map((plan) => (
            <Button key={plan.id} disabled={isBusy} onClick={() => choose(plan)}>
              <bdi>{foreign(plan.name, 120)}</bdi> · <Usdc units={plan.amount} />{' '}
              {everyPeriod(plan.periodHours)}
            </Button>
          ))}
          {chosen !== undefined &&
            chosen.replaces !== null &&
            chosen.replaces.delegate !== named && (
              <Notice kind="warning" title={words.panel.otherApproval}>
                <OtherApproval approval={chosen.replaces} />
              </Notice>
            )}
          {chosen !== undefined && subscription.discount !== null && (
            <p className="muted">{text.discount}</p>
          )}
          {chosen?.changes.map((one) => (
            <Costs
              key={one.when}
              change={one}
              title={one.when === 'now' ? text.atOnce : text.atEnd}
            >
              <Button
                kind={one.when === 'now' ? 'primary' : 'plain'}
                disabled={isBusy}
                onClick={() => change(chosen.plan.id, one)}
              >
                {one.when === 'now' ? text.now : text.later}
              </Button>
            </Costs>
          ))}
          {step !== undefined && (
            <Spinner>{step === 'preparing' ? words.preparing : words.account[step]}</Spinner>
          )}
          {problem !== undefined && <Explained kind="warning" of={problem()} />}
          {lacking !== undefined && (
            <Lacking of={lacking.of} needsSol={lacking.needsSol} address={session.address} />
          )}
        </div>
      )}
    </section>
  );
}

/** Shows the name and the costs of one change, and the button that starts the change. */
function Costs({
  change,
  title,
  children,
}: {
  change: Change;
  title: string;
  children: ReactElement;
}): ReactElement {
  return (
    <div className="change-costs">
      <h3>{title}</h3>
      <ChangeCosts change={change} text={words.change} />
      {children}
    </div>
  );
}
