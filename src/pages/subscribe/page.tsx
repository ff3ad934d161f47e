// /s/{planId} and /checkout/{checkoutSessionId}: a plan's terms and the button that subscribes.
import { type ReactElement, useEffect, useState } from 'react';
import { explain, isCode } from '../shared/errors.ts';
import { LanguageSwitch } from '../shared/language-switch.tsx';
import { words } from '../shared/language.ts';
import { Button, Explained, Spinner } from '../shared/parts.tsx';
import { Report } from '../shared/report.tsx';
import { anonymous, type Checkout, type PublicPlan } from '../shared/session.ts';
import { foreign } from '../shared/text.ts';
import { ZoneSwitch } from '../shared/zone-switch.tsx';
import { useFlow } from './flow.ts';
import { closedWhy, Panel } from './panel.tsx';
import { Summary } from './summary.tsx';

interface Offer {
  plan: PublicPlan;
  checkout?: Checkout | undefined;
}

/** Reads a plan, or a checkout session and its plan. */
async function readOffer(kind: 'plan' | 'checkout', id: string): Promise<Offer> {
  if (kind === 'plan')
    return { plan: await anonymous.get('/plans/{planId}', { path: { planId: id } }) };
  const path = { checkoutSessionId: id };
  const checkout = await anonymous.get('/checkout-sessions/{checkoutSessionId}', { path });
  return { plan: checkout.plan, checkout };
}

function Offered({ plan, checkout }: Offer): ReactElement {
  const flow = useFlow({ plan, checkoutSessionId: checkout?.id });
  const closed = closedWhy(plan, checkout);
  const { view } = flow;
  const { at } = view;
  // The summary shows no payments if the wallet cannot subscribe or is already subscribed. The
  // panel then says that there is nothing to do.
  const isSubscribed = view.at === 'problem' && view.isSubscribed === true;
  const isOffered =
    (closed === undefined || at !== 'offer') &&
    !isSubscribed &&
    !['subscribed', 'done', 'closed'].includes(at);
  return (
    <div className="checkout">
      {plan.available && (
        <Summary plan={plan} terms={isOffered ? flow.terms : undefined} checkout={checkout} />
      )}
      <main className="checkout-panel">
        <Panel plan={plan} checkout={checkout} closed={closed} flow={flow} />
        <footer className="muted small">
          <LanguageSwitch />
          <ZoneSwitch />
          <a href="/account">{words.mySubscriptions}</a>
          <Report planId={plan.id} />
        </footer>
      </main>
    </div>
  );
}

export function SubscribePage({
  kind,
  id,
}: {
  kind: 'plan' | 'checkout';
  id: string;
}): ReactElement {
  const [offer, setOffer] = useState<Offer>();
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);

  useEffect(() => {
    let live = true;
    readOffer(kind, id).then(
      (found) => {
        if (!live) return;
        if (found.plan.available)
          document.title = `${foreign(found.plan.name, 60)} · ${foreign(found.plan.appName, 60)}`;
        setOffer(found);
      },
      (failure: unknown) => live && setError(failure),
    );
    return () => {
      live = false;
    };
  }, [kind, id, tries]);

  if (offer !== undefined) return <Offered plan={offer.plan} checkout={offer.checkout} />;
  return (
    <main className="boot">
      {error === undefined && <Spinner>{words.page.loading}</Spinner>}
      {error !== undefined && isCode(error, 'NOT_FOUND') && (
        <>
          <h1>{words.page.nowhere}</h1>
          <p className="muted">{kind === 'plan' ? words.page.noPlan : words.page.noCheckout}</p>
        </>
      )}
      {error !== undefined && !isCode(error, 'NOT_FOUND') && (
        <>
          <h1>{words.page.failed}</h1>
          <Explained kind="error" of={explain(error)} />
          <Button
            kind="primary"
            onClick={() => {
              setError(undefined);
              setTries(tries + 1);
            }}
          >
            {words.tryAgain}
          </Button>
        </>
      )}
    </main>
  );
}
