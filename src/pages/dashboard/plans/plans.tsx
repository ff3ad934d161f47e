import { type ReactElement, useCallback, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Badge, Button, Copy, Notice, Spinner, Usdc } from '../../shared/parts.tsx';
import { everyPeriod, span } from '../../shared/period.ts';
import { type Plan, submit } from '../../shared/session.ts';
import { hiddenHead, Table } from '../../shared/table.tsx';
import { foreign } from '../../shared/text.ts';
import { LIVE_MS, type AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { blockText } from '../parts/reasons.ts';
import { EditPlan } from './edit-plan.tsx';
import { NewPlan } from './new-plan.tsx';

/** Returns the URL of the page on which anyone can subscribe to the plan. */
const linkOf = ({ id }: Plan): string => `${location.origin}/s/${id}`;

const POLL_MS = 1500;
/**
 * Maximum time (ms) to wait until a transaction is on chain. After this time the transaction's
 * blockhash has expired.
 */
const LANDING_MS = 100_000;

/**
 * Waits until the service finds the plan on chain. Used when the wallet itself sent the transaction
 * that publishes the plan. Returns whether the service found the plan in time.
 */
async function hasLanded({ session, app }: AppContext, { id }: Plan): Promise<boolean> {
  const path = { appId: app.id, planId: id };
  for (const deadline = Date.now() + LANDING_MS; Date.now() < deadline;) {
    const { status } = await session.client.get('/merchant/apps/{appId}/plans/{planId}', { path });
    if (status !== 'pending') return true;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return false;
}

function PlanLink({ plan }: { plan: Plan }): ReactElement {
  const name = foreign(plan.name, 60);
  return (
    <span className="address">
      <a href={linkOf(plan)} target="_blank" rel="noreferrer">
        Open
        <span className="visually-hidden"> the page of {name}</span>
      </a>
      <Copy text={linkOf(plan)} label={`Copy the link of ${name}`} />
    </span>
  );
}

const LAPSED = 'The transaction lapsed: it is good for about half a minute. Publish again.';

/**
 * Lists the app's plans and their links. Publishing a plan needs a signature of the merchant's
 * wallet.
 */
export function Plans({ context }: { context: AppContext }): ReactElement {
  const { session, app } = context;
  const open = useCallback(
    () => session.client.pages('/merchant/apps/{appId}/plans', { path: { appId: app.id } }),
    [session, app.id],
  );
  const list = usePages(open, LIVE_MS);
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<Plan>();
  const [editing, setEditing] = useState<Plan>();
  const [busy, setBusy] = useState<{ id: string; text: string }>();
  const [message, setMessage] = useState<{ kind: 'success' | 'warning'; text: string }>();

  const publish = async (plan: Plan) => {
    setMessage(undefined);
    setBusy({ id: plan.id, text: 'Preparing…' });
    try {
      const path = { appId: app.id, planId: plan.id };
      const ask = () =>
        session.client.post('/merchant/apps/{appId}/plans/{planId}/transaction', { path });
      const { status, reason, doubt } = await submit(session, ask, (step) =>
        setBusy({
          id: plan.id,
          text: step === 'sign' ? 'Confirm in your wallet…' : 'Waiting for the network…',
        }),
      );
      const isPublished =
        status === 'confirmed' || (status === 'sent' && (await hasLanded(context, plan)));
      setMessage(
        isPublished
          ? { kind: 'success', text: `${foreign(plan.name, 60)} is published.` }
          : {
              kind: 'warning',
              text: reason ?? (doubt === undefined ? LAPSED : wordsOf(doubt)),
            },
      );
    } catch (error) {
      setMessage({ kind: 'warning', text: `${wordsOf(error)} The plan is not published yet.` });
    }
    setBusy(undefined);
    list.refresh();
  };

  return (
    <>
      <div className="view-head">
        <h1>Plans</h1>
        <Button kind="primary" onClick={() => setMaking(true)}>
          New plan
        </Button>
      </div>
      {busy !== undefined && <Spinner>{busy.text}</Spinner>}
      {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
      <ListOf
        list={list}
        empty={
          <>
            <strong>No plans yet</strong>
            <span>
              A plan is an amount of USDC and how often it is paid. Your wallet publishes it on
              Solana.
            </span>
          </>
        }
      >
        <Table
          label="Plans"
          rows={list.rows}
          columns={[
            { head: 'Plan', cell: ({ name }) => <bdi>{foreign(name, 120)}</bdi> },
            {
              head: 'Status',
              cell: ({ status, collectionBlockedReason, warnings }) => (
                <>
                  <Badge status={status} />
                  {status === 'pending' &&
                    warnings.map(({ code, message }) => (
                      <span key={code} className="reason muted small">
                        {foreign(message, 300)}
                      </span>
                    ))}
                  {collectionBlockedReason !== null && (
                    <span className="reason muted small">{blockText(collectionBlockedReason)}</span>
                  )}
                </>
              ),
            },
            { head: 'Amount', isNumber: true, cell: ({ amount }) => <Usdc units={amount} /> },
            { head: 'Period', cell: ({ periodHours }) => everyPeriod(periodHours) },
            {
              head: 'Trial',
              cell: ({ trialHours }) => (trialHours === null ? '–' : span(trialHours)),
            },
            { head: 'Link', cell: (plan) => plan.status === 'active' && <PlanLink plan={plan} /> },
            {
              head: hiddenHead('Actions'),
              isNumber: true,
              cell: (plan) => (
                <>
                  {plan.status === 'pending' && (
                    <Button
                      kind="primary"
                      busy={busy?.id === plan.id}
                      disabled={busy !== undefined}
                      onClick={() => void publish(plan)}
                    >
                      Publish
                    </Button>
                  )}
                  {plan.status !== 'ended' && (
                    <Button kind="link" onClick={() => setEditing(plan)}>
                      Edit<span className="visually-hidden"> {foreign(plan.name, 60)}</span>
                    </Button>
                  )}{' '}
                  {plan.status === 'active' && (
                    <Button kind="link" onClick={() => setEnding(plan)}>
                      Sunset<span className="visually-hidden"> {foreign(plan.name, 60)}</span>
                    </Button>
                  )}
                </>
              ),
            },
          ]}
        />
      </ListOf>
      {making && (
        <NewPlan
          context={context}
          onClose={() => setMaking(false)}
          onMade={(plan) => {
            setMaking(false);
            list.refresh();
            // The amount of a published plan can never change. A plan with warnings is therefore
            // not published until the merchant has read the warnings.
            if (plan.warnings.length === 0) void publish(plan);
            else
              setMessage({
                kind: 'warning',
                text: `${foreign(plan.name, 60)} is created, but not published: publish it if the price is right.`,
              });
          }}
        />
      )}
      {editing !== undefined && (
        <EditPlan
          context={context}
          plan={editing}
          onClose={() => setEditing(undefined)}
          onDone={() => {
            setEditing(undefined);
            list.refresh();
          }}
        />
      )}
      {ending !== undefined && (
        <Sunset
          context={context}
          plan={ending}
          onClose={() => setEnding(undefined)}
          onDone={() => {
            setEnding(undefined);
            list.refresh();
          }}
        />
      )}
    </>
  );
}

function Sunset({
  context: { session, app },
  plan,
  onClose,
  onDone,
}: {
  context: AppContext;
  plan: Plan;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const run = () =>
    session.client.patch('/merchant/apps/{appId}/plans/{planId}', {
      path: { appId: app.id, planId: plan.id },
      body: { status: 'sunset' },
    });
  return (
    <Confirm
      title="Sunset this plan?"
      button="Sunset"
      leave="Keep it"
      isDangerous
      run={run}
      onClose={onClose}
      onDone={onDone}
    >
      <p>
        <bdi>{foreign(plan.name, 80)}</bdi> takes no new subscriptions from then on. Those that it
        has go on. This cannot be taken back.
      </p>
    </Confirm>
  );
}
