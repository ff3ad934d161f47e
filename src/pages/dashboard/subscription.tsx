import { type ReactElement, useCallback, useEffect, useState } from 'react';
import { discountText } from '../shared/discount.ts';
import { wordsOf } from '../shared/errors.ts';
import {
  Address,
  Button,
  Dialog,
  Notice,
  Spinner,
  SubscriptionBadge,
  Usdc,
} from '../shared/parts.tsx';
import { everyPeriod } from '../shared/period.ts';
import { Time } from '../shared/time.tsx';
import { LIVE_MS, type Place, useResponse } from './place.ts';
import { Timeline } from './timeline.tsx';

/** Shows one subscription and its history. */
export function Subscription({ place, id }: { place: Place; id: string }): ReactElement {
  const { session, app } = place;
  const ask = useCallback(async () => {
    const path = { appId: app.id, subscriptionId: id };
    const [subscription, timeline] = await Promise.all([
      session.client.get('/merchant/apps/{appId}/subscriptions/{subscriptionId}', { path }),
      session.client.get('/merchant/apps/{appId}/subscriptions/{subscriptionId}/timeline', {
        path,
      }),
    ]);
    return { subscription, timeline };
  }, [session, app.id, id]);
  const { data, error, again } = useResponse(ask);
  const [ending, setEnding] = useState<'period_end' | 'force'>();
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') again();
    }, LIVE_MS);
    return () => clearInterval(timer);
  }, [again]);

  const back = (
    <p>
      <a href="#/subscriptions">All subscriptions</a>
    </p>
  );
  if (data === undefined)
    return (
      <>
        {back}
        {error === undefined ? (
          <Spinner>Loading…</Spinner>
        ) : (
          <Notice kind="error">{wordsOf(error)}</Notice>
        )}
      </>
    );
  const { subscription, timeline } = data;
  const open = subscription.status === 'active' || subscription.status === 'past_due';
  return (
    <>
      {back}
      <div className="view-head">
        <h1>Subscription</h1>
        {open && (
          <div className="actions">
            {subscription.cancelRequestedAt === null && (
              <Button onClick={() => setEnding('period_end')}>Cancel at period end</Button>
            )}
            <Button kind="danger" onClick={() => setEnding('force')}>
              Cancel now
            </Button>
          </div>
        )}
      </div>
      <dl className="lines card">
        <div>
          <dt>Status</dt>
          <dd>
            <SubscriptionBadge of={subscription} />
          </dd>
        </div>
        <div>
          <dt>Subscriber</dt>
          <dd>
            <Address of={subscription.subscriberWallet} label="subscriber’s wallet" />
          </dd>
        </div>
        <div>
          <dt>Pays</dt>
          <dd>
            <Usdc units={subscription.amount} /> {everyPeriod(subscription.periodHours)}
            {subscription.discount !== null && <>, {discountText(subscription.discount)}</>}
          </dd>
        </div>
        {subscription.trialEndsAt !== null && (
          <div>
            <dt>Trial ends</dt>
            <dd>
              <Time at={subscription.trialEndsAt} />
            </dd>
          </div>
        )}
        {subscription.pausedAt !== null && (
          <div>
            <dt>Paused since</dt>
            <dd>
              <Time at={subscription.pausedAt} />
            </dd>
          </div>
        )}
        <div>
          <dt>Paid through</dt>
          <dd>
            {subscription.paidThrough === null ? '–' : <Time at={subscription.paidThrough} />}
          </dd>
        </div>
        <div>
          <dt>Id</dt>
          <dd>
            <Address of={subscription.id} label="subscription’s id" />
          </dd>
        </div>
      </dl>
      <h2>What happened</h2>
      <Timeline entries={timeline} />
      {ending !== undefined && (
        <Cancel
          place={place}
          id={id}
          mode={ending}
          onClose={() => setEnding(undefined)}
          onDone={() => {
            setEnding(undefined);
            again();
          }}
        />
      )}
    </>
  );
}

function Cancel({
  place: { session, app },
  id,
  mode,
  onClose,
  onDone,
}: {
  place: Place;
  id: string;
  mode: 'period_end' | 'force';
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const confirm = () => {
    setBusy(true);
    const path = { appId: app.id, subscriptionId: id };
    session.client
      .post('/merchant/apps/{appId}/subscriptions/{subscriptionId}/cancel', {
        path,
        body: { mode },
      })
      .then(onDone, (error: unknown) => {
        setBusy(false);
        setProblem(wordsOf(error));
      });
  };
  return (
    <Dialog title={mode === 'force' ? 'Cancel now?' : 'Cancel at period end?'} onClose={onClose}>
      <p>
        {mode === 'force'
          ? 'The subscription ends at once and nothing more is collected. This cannot be taken back.'
          : 'Nothing more is collected. The subscriber keeps access until the end of the paid time.'}
      </p>
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
      <div className="actions end">
        <Button onClick={onClose}>Keep it</Button>
        <Button kind="danger" busy={busy} onClick={confirm}>
          {mode === 'force' ? 'Cancel now' : 'Cancel at period end'}
        </Button>
      </div>
    </Dialog>
  );
}
