import { type ReactElement, useCallback, useEffect, useRef, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { formatUsdc } from '../../../format.ts';
import { wordsOf } from '../../shared/errors.ts';
import { Line } from '../../shared/line.tsx';
import { formatExact, parseUsdc } from '../../shared/money.ts';
import { Button, Dialog, Notice, Signature, Spinner, Usdc } from '../../shared/parts.tsx';
import { type Session, submit } from '../../shared/session.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useResponse } from '../parts/app-context.ts';
import { customerName } from '../parts/customer.tsx';
import { Loading } from '../parts/loading.tsx';
import { pendingRefunds, refundable } from './refundable.ts';

type Transaction = components['schemas']['Transaction'];
type Refund = components['schemas']['Refund'];
type NewRefund = components['schemas']['NewRefund'];

const POLL_MS = 1500;

/** Polls the refunds of a payment. One page is enough, because a payment has few refunds. */
export function useRefunds(
  { session, app }: AppContext,
  transactionId: string,
  everyMs = LIVE_MS,
): ReturnType<typeof useResponse<readonly Refund[]>> {
  const ask = useCallback(
    () =>
      session.client.get('/merchant/apps/{appId}/transactions/{transactionId}/refunds', {
        path: { appId: app.id, transactionId },
        query: { limit: 100 },
      }),
    [session, app.id, transactionId],
  );
  return useResponse<readonly Refund[]>(ask, everyMs);
}

/**
 * Refunds a payment: asks for the amount, then for the wallet's signature, and shows the receipt.
 */
export function RefundDialog({
  context,
  payment,
  onClose,
}: {
  context: AppContext;
  payment: Transaction;
  onClose: () => void;
}): ReactElement {
  const [sent, setSent] = useState<Sent>();
  const refunds = useRefunds(context, payment.id, POLL_MS);
  if (sent !== undefined)
    return (
      <Receipt
        sent={sent}
        payment={payment}
        recorded={refunds.data?.find(({ id }) => id === sent.id)}
        onClose={onClose}
      />
    );
  return (
    <Dialog title="Refund a payment" onClose={onClose}>
      {refunds.data === undefined ? (
        <Loading error={refunds.error} />
      ) : (
        <Form
          context={context}
          payment={payment}
          left={refundable(payment, refunds.data)}
          pending={pendingRefunds(refunds.data)}
          onSent={setSent}
          onClose={onClose}
        />
      )}
    </Dialog>
  );
}

interface Sent {
  id: string;
  amount: string;
  signature: string;
}

/**
 * Gets an offer (an unsigned transaction that pays the refund) and asks the wallet to sign it. If
 * the wallet declines, `pendingRefund` keeps the offer. The next try with the same amount uses this
 * offer again, because the service refuses a second offer while the first offer could still land.
 */
async function sign(
  { session, app }: AppContext,
  transactionId: string,
  amount: string,
  {
    asked: pendingRefund,
    step,
  }: { asked: { current: NewRefund | undefined }; step: (text: string) => void },
): Promise<Sent> {
  if (pendingRefund.current?.amount !== amount) {
    step('Preparing…');
    pendingRefund.current = await session.client.post(
      '/merchant/apps/{appId}/transactions/{transactionId}/refunds',
      { path: { appId: app.id, transactionId }, body: { amount } },
    );
  }
  const offer = pendingRefund.current;
  const { status, reason, signature, doubt } = await submitOffer(session, offer, step);
  // The wallet may have sent the transaction. The next try asks for a signature of the same
  // transaction, so the refund cannot be paid twice.
  if (doubt !== undefined) throw doubt;
  if (status === 'confirmed' || status === 'sent') return { id: offer.id, amount, signature };
  pendingRefund.current = undefined;
  throw new Error(
    reason ??
      'The transaction lapsed before it was signed. Nothing was paid. Its amount can be refunded again in five minutes.',
  );
}

const submitOffer = (session: Session, offer: NewRefund, step: (text: string) => void) =>
  submit(
    session,
    () => Promise.resolve(offer),
    (name) => step(name === 'sign' ? 'Confirm in your wallet…' : 'Waiting for the network…'),
  );

function Form({
  context,
  payment,
  left,
  pending,
  onSent,
  onClose,
}: {
  context: AppContext;
  payment: Transaction;
  left: bigint;
  /** Sum of the refunds that are not final, including the offer that this dialog got. */
  pending: bigint;
  onSent: (sent: Sent) => void;
  onClose: () => void;
}): ReactElement {
  const [text, setText] = useState(() => formatUsdc(left));
  const [step, setStep] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const pendingRefund = useRef<NewRefund>(undefined);
  const units = parseUsdc(text);
  // `left` does not include the amount of an offer that the wallet declined. This amount is still
  // available, because the next try can use the declined offer.
  const most = left + BigInt(pendingRefund.current?.amount ?? 0);
  const waiting = pendingRefund.current === undefined && pending > 0n && (
    <p className="muted small">
      {formatExact(pending)} USDC wait for a refund that was asked for and is not final. If it was
      not signed, they can be refunded again five minutes after it was asked for.
    </p>
  );
  const refund = async () => {
    if (units === undefined || BigInt(units) > most) {
      setProblem(`The amount is more than 0 and at most ${formatExact(most)} USDC.`);
      return;
    }
    setProblem(undefined);
    try {
      onSent(await sign(context, payment.id, units, { asked: pendingRefund, step: setStep }));
    } catch (error) {
      setProblem(wordsOf(error));
      setStep(undefined);
    }
  };
  if (most <= 0n)
    return (
      <>
        <p>Nothing of this payment is left to refund{pending > 0n ? ' now' : ''}.</p>
        {waiting}
        <div className="actions end">
          <Button onClick={onClose}>Close</Button>
        </div>
      </>
    );
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        void refund();
      }}
    >
      <p>
        To <bdi>{customerName(payment)}</bdi>, from your wallet. The payment of{' '}
        <Time at={payment.occurredAt} dateOnly /> was <Usdc units={payment.amountGross} />; the fee
        of <Usdc units={payment.platformFee} /> is not refunded.
        {payment.amountCredited !== '0' && (
          <>
            {' '}
            A change of plan has made <Usdc units={payment.amountCredited} /> a credit, which is not
            refunded.
          </>
        )}
      </p>
      <label>
        Amount in USDC
        <input
          value={text}
          required
          autoFocus
          inputMode="decimal"
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      <p className="muted small">
        At most {formatExact(most)} USDC. Your wallet signs and pays it.
      </p>
      {waiting}
      {step !== undefined && <Spinner>{step}</Spinner>}
      {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
      <div className="actions end">
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" type="submit" busy={step !== undefined}>
          {units === undefined ? 'Refund' : `Refund ${formatExact(units)} USDC`}
        </Button>
      </div>
    </form>
  );
}

function Receipt({
  sent,
  payment,
  recorded,
  onClose,
}: {
  sent: Sent;
  payment: Transaction;
  recorded: Refund | undefined;
  onClose: () => void;
}): ReactElement {
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => close.current?.focus(), []);
  const isFinal = recorded?.status === 'succeeded';
  return (
    <Dialog title="Refunded" onClose={onClose}>
      <dl className="lines">
        <Line name="Amount">
          <Usdc units={sent.amount} />
        </Line>
        <Line name="To">
          <bdi>{customerName(payment)}</bdi>
        </Line>
        <Line name="Transaction">
          <Signature of={sent.signature} />
        </Line>
      </dl>
      <p className="muted" role="status">
        {isFinal
          ? 'The transfer is final, and the refund is in your books.'
          : 'The transfer is confirmed. It is in your books once it is final, in about 20 seconds.'}
      </p>
      <div className="actions end">
        <Button ref={close} kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}
