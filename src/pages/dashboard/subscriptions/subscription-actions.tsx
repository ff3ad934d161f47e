import { type ReactElement, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { Button, Usdc } from '../../shared/parts.tsx';
import { isLive } from '../../shared/status.ts';
import type { AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { DiscountFields, discountOf, typedDiscount } from '../parts/discount-fields.tsx';
import { MAX_METADATA, objectOf, PairFields, type Pairs } from '../parts/metadata-fields.tsx';
import { orNull } from '../parts/typed.ts';
import { ChangePlan } from '../plans/change-plan.tsx';

type Subscription = components['schemas']['Subscription'];

/** Actions without further input. */
type Verb = 'pause' | 'unpause' | 'period_end' | 'force' | 'reinstate';

/** Actions with input. */
type Form = 'discount' | 'ids' | 'plan';
const isForm = (open: Verb | Form): open is Form => ['discount', 'ids', 'plan'].includes(open);

interface Words {
  /** Text of two buttons: one on the page opens the dialog, one in the dialog runs the action. */
  button: string;
  title: string;
  text: string;
  isDangerous?: boolean;
}

const actions: Readonly<Record<Verb, Words>> = {
  pause: {
    button: 'Pause',
    title: 'Pause this subscription?',
    text: 'Nothing is collected until you unpause it, and the time in between is never charged. Access ends with the paid time.',
  },
  unpause: {
    button: 'Unpause',
    title: 'Unpause this subscription?',
    text: 'The next payment is due at the end of the paid time. If that is over, it is due at once, for the rest of the running period.',
  },
  period_end: {
    button: 'Cancel at period end',
    title: 'Cancel at period end?',
    text: 'Nothing more is collected. The subscriber keeps access until the end of the paid time.',
    isDangerous: true,
  },
  force: {
    button: 'Cancel now',
    title: 'Cancel now?',
    text: 'The subscription ends at once and nothing more is collected. It does not go on again: you can only allow the wallet to subscribe anew.',
    isDangerous: true,
  },
  reinstate: {
    button: 'Reinstate',
    title: 'Let this wallet subscribe again?',
    text: 'You ended the subscription. It stays ended, but the wallet may subscribe to the plan again with the same account.',
  },
};

/** Returns the actions that the subscription's state allows. */
function verbsOf(subscription: Subscription): readonly Verb[] {
  if (subscription.status === 'cancelled' && subscription.endReason === 'forced')
    return subscription.reinstatedAt === null ? ['reinstate'] : [];
  if (!isLive(subscription.status)) return [];
  if (subscription.cancelRequestedBy === 'merchant') return ['force'];
  if (subscription.cancelRequestedAt !== null) return ['period_end', 'force'];
  return [subscription.pausedAt === null ? 'pause' : 'unpause', 'period_end', 'force'];
}

/** Buttons that change a subscription, each behind a dialog. */
export function SubscriptionActions({
  context,
  subscription,
  onDone,
}: {
  context: AppContext;
  subscription: Subscription;
  onDone: () => void;
}): ReactElement {
  const [open, setOpen] = useState<Verb | Form>();
  const close = () => setOpen(undefined);
  const done = () => {
    close();
    onDone();
  };
  const parts = { context, subscription, onClose: close, onDone: done };
  return (
    <div className="actions">
      <Button onClick={() => setOpen('ids')}>Edit your data</Button>
      {isLive(subscription.status) && <Button onClick={() => setOpen('discount')}>Discount</Button>}
      {isLive(subscription.status) && subscription.replacedBy === null && (
        <Button onClick={() => setOpen('plan')}>Change plan</Button>
      )}
      {verbsOf(subscription).map((verb) => (
        <Button
          key={verb}
          kind={verb === 'force' ? 'danger' : 'plain'}
          onClick={() => setOpen(verb)}
        >
          {actions[verb].button}
        </Button>
      ))}
      {open === 'discount' && <Discount {...parts} />}
      {open === 'ids' && <OwnIds {...parts} />}
      {open === 'plan' && <ChangePlan {...parts} />}
      {open !== undefined && !isForm(open) && <Act {...parts} verb={open} />}
    </div>
  );
}

interface Parts {
  context: AppContext;
  subscription: Subscription;
  onClose: () => void;
  onDone: () => void;
}

function Act({
  context: { session, app },
  subscription,
  verb,
  onClose,
  onDone,
}: Parts & { verb: Verb }): ReactElement {
  const path = { appId: app.id, subscriptionId: subscription.id };
  const { client } = session;
  const { title, text, button, isDangerous = false } = actions[verb];
  const run = (): Promise<unknown> => {
    if (verb === 'period_end' || verb === 'force')
      return client.post('/merchant/apps/{appId}/subscriptions/{subscriptionId}/cancel', {
        path,
        body: { mode: verb },
      });
    return client.post(`/merchant/apps/{appId}/subscriptions/{subscriptionId}/${verb}`, { path });
  };
  return (
    <Confirm {...{ title, button, isDangerous, run, onClose, onDone }}>
      <p>{text}</p>
      {(verb === 'period_end' || verb === 'force') && subscription.credit !== '0' && (
        <p>
          The customer has <Usdc units={subscription.credit} partOf={subscription.amount} /> of
          credit left. It is not paid out: it stays for the customer’s other subscriptions in this
          app, and for the next one.
        </p>
      )}
    </Confirm>
  );
}

function Discount({
  context: { session, app },
  subscription,
  onClose,
  onDone,
}: Parts): ReactElement {
  const [typed, setTyped] = useState(() => typedDiscount(subscription.discount));
  const run = async () => {
    const discount = discountOf(typed);
    await session.client.patch('/merchant/apps/{appId}/subscriptions/{subscriptionId}', {
      path: { appId: app.id, subscriptionId: subscription.id },
      body: { discount },
    });
  };
  return (
    <Confirm
      title="Discount on the next payments"
      button="Save"
      run={run}
      onClose={onClose}
      onDone={onDone}
    >
      <DiscountFields value={typed} onChange={setTyped} />
    </Confirm>
  );
}

function OwnIds({ context: { session, app }, subscription, onClose, onDone }: Parts): ReactElement {
  const [externalId, setExternalId] = useState(subscription.externalId ?? '');
  const [pairs, setPairs] = useState<Pairs>(() => Object.entries(subscription.metadata));
  const run = () =>
    session.client.patch('/merchant/apps/{appId}/subscriptions/{subscriptionId}', {
      path: { appId: app.id, subscriptionId: subscription.id },
      body: {
        externalId: orNull(externalId),
        metadata: objectOf(pairs),
      },
    });
  return (
    <Confirm title="Your data" button="Save" run={run} onClose={onClose} onDone={onDone}>
      <label>
        Your customer’s id
        <input
          value={externalId}
          maxLength={120}
          placeholder="customer-1042"
          onChange={({ target }) => setExternalId(target.value)}
        />
      </label>
      <PairFields
        legend="Metadata"
        pairs={pairs}
        most={MAX_METADATA}
        nameExample="team"
        valueExample="blue"
        onChange={setPairs}
      />
    </Confirm>
  );
}
