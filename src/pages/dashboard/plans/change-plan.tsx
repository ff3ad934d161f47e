// Change of plan: the merchant chooses the plan and the time, sees the costs, and gets a link. The
// subscriber opens the link and signs the change.
import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { type Change, ChangeCosts } from '../../shared/change-costs.tsx';
import { discountText } from '../../shared/discount.ts';
import { Button, Dialog, Notice } from '../../shared/parts.tsx';
import { Time } from '../../shared/time.tsx';
import { type AppContext, useLoadedPlans, useResponse } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import {
  DiscountFields,
  discountOf,
  noDiscount,
  type TypedDiscount,
} from '../parts/discount-fields.tsx';
import { Loading } from '../parts/loading.tsx';
import { Shown } from '../parts/secret.tsx';
import { PlanSelect } from './plan-select.tsx';

type Subscription = components['schemas']['Subscription'];

const texts = {
  credit: 'Credit for the unused paid time',
  today: 'Paid today',
  nothing: 'Nothing',
  next: 'Next payment',
  after: 'After that',
};

export function ChangePlan({
  context,
  subscription,
  onClose,
}: {
  context: AppContext;
  subscription: Subscription;
  onClose: () => void;
}): ReactElement {
  const { session, app } = context;
  const plans = useLoadedPlans(context)?.filter(
    ({ id, status }) => status === 'active' && id !== subscription.planId,
  );
  const [chosen, setChosen] = useState('');
  const [when, setWhen] = useState<Change['when']>('now');
  const [typed, setTyped] = useState(noDiscount);
  const [url, setUrl] = useState<string>();
  const planId = chosen === '' ? plans?.[0]?.id : chosen;
  if (url !== undefined) return <Link url={url} onClose={onClose} />;
  if (plans === undefined || planId === undefined)
    return (
      <Dialog title="Change plan" onClose={onClose}>
        {plans === undefined ? (
          <Loading error={undefined} />
        ) : (
          <p>
            This app has no other active plan. Publish one under <a href="#/plans">Plans</a>.
          </p>
        )}
        <div className="actions end">
          <Button onClick={onClose}>Close</Button>
        </div>
      </Dialog>
    );
  const make = async () => {
    const discount = discountOf(typed);
    return session.client.post('/merchant/apps/{appId}/checkout-sessions', {
      path: { appId: app.id },
      body: {
        planId,
        replaces: subscription.id,
        changeWhen: when,
        ...(discount !== null && { discount }),
      },
    });
  };
  return (
    <Confirm
      title="Change plan"
      button="Create link"
      run={make}
      onClose={onClose}
      onDone={(made) => setUrl(made.url)}
    >
      <PlanSelect label="New plan" plans={plans} value={planId} onChange={setChosen} />
      <label>
        When
        <select value={when} onChange={({ target }) => setWhen(target.value as Change['when'])}>
          <option value="now">Now</option>
          <option value="period_end">When the paid period ends</option>
        </select>
      </label>
      {subscription.discount !== null && (
        <Notice kind="warning">
          The discount of {discountText(subscription.discount)} does not go along. Give one to the
          new plan here.
        </Notice>
      )}
      <DiscountFields value={typed} onChange={setTyped} />
      <Costs
        context={context}
        subscriptionId={subscription.id}
        planId={planId}
        when={when}
        discount={typed}
      />
      <p className="muted small">
        Only the subscriber’s wallet can sign the change. Nothing changes before it does.
      </p>
    </Confirm>
  );
}

/**
 * Shows what the subscriber would pay if the wallet signed the change now. If the typed discount is
 * incomplete or invalid, shows the reason instead.
 */
function Costs({
  context: { session, app },
  subscriptionId,
  planId,
  when,
  discount,
}: {
  context: AppContext;
  subscriptionId: string;
  planId: string;
  when: Change['when'];
  discount: TypedDiscount;
}): ReactElement {
  const ask = useCallback(async () => {
    const { periods = null, ...off } = discountOf(discount) ?? {};
    const change = await session.client.get(
      '/merchant/apps/{appId}/subscriptions/{subscriptionId}/change',
      {
        path: { appId: app.id, subscriptionId },
        query: { planId, when, ...off, ...(periods !== null && { periods }) },
      },
    );
    return { change, asked: ask };
  }, [session, app.id, subscriptionId, planId, when, discount]);
  const { data, error } = useResponse(ask);
  if (error !== undefined || data?.asked !== ask) return <Loading error={error} />;
  return (
    <section aria-label="What the subscriber pays">
      <ChangeCosts change={data.change} text={texts} />
      <p className="muted small">
        The subscription to the old plan ends <Time at={data.change.endsAt} />.
      </p>
    </section>
  );
}

function Link({ url, onClose }: { url: string; onClose: () => void }): ReactElement {
  const mail = new URLSearchParams({ subject: 'Change of plan', body: url });
  return (
    <Dialog key="ready" title="The link is ready" onClose={onClose}>
      <p className="muted">
        Send it to your customer, whose wallet signs the change. It works once, for 24 hours.
      </p>
      <Shown text={url} label="Copy the link" />
      <div className="actions end">
        <a className="button plain" href={`mailto:?${mail.toString().replaceAll('+', '%20')}`}>
          Send by e-mail
        </a>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}
