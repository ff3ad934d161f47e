// Basic components that all pages use.
import {
  Component,
  type ComponentProps,
  type ReactElement,
  type ReactNode,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import { fill } from '../../words/fill.ts';
import type { Explanation } from './errors.ts';
import { Fill } from './fill.tsx';
import { explorerUrl } from './installation.ts';
import { words } from './language.ts';
import { formatExact, formatToCent } from './money.ts';
import { isLive } from './status.ts';
import { foreign, shortAddress } from './text.ts';
import { Time } from './time.tsx';

/** A button. While its action runs (`busy`), the button ignores presses. */
export function Button({
  kind = 'plain',
  busy = false,
  icon,
  children,
  ...rest
}: ComponentProps<'button'> & {
  kind?: 'primary' | 'plain' | 'danger' | 'link';
  busy?: boolean;
  icon?: ReactNode;
}): ReactElement {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind}`}
      disabled={busy || rest.disabled === true}
      aria-busy={busy}
    >
      {busy && <span className="spinner" aria-hidden="true" />}
      {icon}
      <span>{children}</span>
    </button>
  );
}

export function Spinner({ children }: { children: ReactNode }): ReactElement {
  return (
    <p className="waiting" role="status">
      <span className="spinner" aria-hidden="true" />
      <span>{children}</span>
    </p>
  );
}

/** A placeholder for rows that are loading. */
export function Skeleton(): ReactElement {
  return (
    <div className="skeleton" role="status" aria-label={words.loading}>
      <span />
      <span />
      <span />
    </div>
  );
}

/**
 * A message to the user. A screen reader announces an error immediately, and any other message
 * after the sentence that it is reading.
 */
export function Notice({
  kind,
  title,
  details,
  children,
}: {
  kind: 'error' | 'warning' | 'success' | 'info';
  title?: string;
  /** The service's own words. They are hidden until the reader opens them. */
  details?: string | undefined;
  children?: ReactNode;
}): ReactElement {
  return (
    <div className={`notice ${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
      {title !== undefined && <strong>{title}</strong>}
      {children !== undefined && <div>{children}</div>}
      {details !== undefined && (
        <details className="small">
          <summary>{words.details}</summary>
          {foreign(details)}
        </details>
      )}
    </div>
  );
}

/** A Notice with an explanation: its text, and the service's own words behind a disclosure. */
export function Explained({
  of: { text, details },
  children,
  ...notice
}: Pick<Parameters<typeof Notice>[0], 'kind' | 'title' | 'children'> & {
  of: Explanation;
}): ReactElement {
  return (
    <Notice {...notice} details={details}>
      {text}
      {children}
    </Notice>
  );
}

/**
 * Shows an amount of USDC with its unit. `partOf` is the full price. If the amount differs from the
 * full price, the amount may come from a division, so it is rounded to the cent.
 */
export function Usdc({ units, partOf = units }: { units: string; partOf?: string }): ReactElement {
  return (
    <span className="amount" title={`${formatExact(units)} USDC`}>
      {units === partOf ? formatExact(units) : formatToCent(units)}{' '}
      <span className="unit">USDC</span>
    </span>
  );
}

/**
 * Shows a shortened address and a button that copies the whole address. The title attribute has the
 * whole address.
 */
export function Address({ of, label }: { of: string; label: string }): ReactElement {
  return (
    <span className="address">
      <code title={of}>{shortAddress(of)}</code>
      <Copy text={of} label={fill(words.copy, { what: label })} />
    </span>
  );
}

export function Copy({ text, label }: { text: string; label: string }): ReactElement {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <button
      type="button"
      className="copy"
      aria-label={copied ? words.copied : label}
      title={copied ? words.copied : label}
      onClick={() => {
        void navigator.clipboard.writeText(text).then(() => setCopied(true));
      }}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {copied ? (
          <path d="M3 8.5 6.5 12 13 4.5" />
        ) : (
          <path d="M5.5 5.5V3.2c0-.4.3-.7.7-.7h6.6c.4 0 .7.3.7.7v6.6c0 .4-.3.7-.7.7h-2.3M3.2 5.5h6.6c.4 0 .7.3.7.7v6.6c0 .4-.3.7-.7.7H3.2a.7.7 0 0 1-.7-.7V6.2c0-.4.3-.7.7-.7Z" />
        )}
      </svg>
    </button>
  );
}

/** Shows a link to a transaction in the explorer. On a local chain, shows the signature instead. */
export function Signature({ of }: { of: string }): ReactElement {
  const url = explorerUrl('tx', of);
  if (url === undefined) return <Address of={of} label={words.signature} />;
  return (
    <a href={url} target="_blank" rel="noreferrer" title={of}>
      {words.explorer}
      <span aria-hidden="true"> ↗</span>
    </a>
  );
}

/**
 * The tone of each status badge. Statuses that only merchants see also have their English text
 * here.
 */
const badges: Readonly<Record<string, readonly [tone: string, text?: string]>> = {
  active: ['good'],
  pending: ['warn', 'Pending'],
  open: ['warn', 'Open'],
  complete: ['good', 'Complete'],
  past_due: ['bad'],
  sunset: ['warn', 'Sunset'],
  ended: ['dim', 'Ended'],
  succeeded: ['good'],
  paid: ['good'],
  uncollectible: ['bad'],
  delivered: ['good', 'Delivered'],
  failed: ['bad'],
  paused: ['warn'],
  revoked: ['dim', 'Revoked'],
};

export function Badge({ status }: { status: string }): ReactElement {
  const [tone, text = status] = badges[status] ?? ['dim'];
  const texts: Readonly<Record<string, string>> = words.status;
  return <span className={`badge ${tone}`}>{texts[status] ?? text}</span>;
}

/**
 * Shows a subscription's status. Shows `Replaced` instead if another subscription replaced the
 * subscription. For a live subscription whose cancellation was requested, shows the end of the paid
 * time, or `Cancelled` if nothing was paid. For any other live subscription that is paused, shows
 * `Paused`.
 */
export function SubscriptionBadge({
  of: { status, cancelRequestedAt, pausedAt, paidThrough, replacedBy = null },
}: {
  of: {
    status: string;
    replacedBy?: string | null;
    cancelRequestedAt: string | null;
    pausedAt: string | null;
    paidThrough: string | null;
  };
}): ReactElement {
  if (replacedBy !== null) return <Badge status="replaced" />;
  if (!isLive(status)) return <Badge status={status} />;
  if (cancelRequestedAt === null) return <Badge status={pausedAt === null ? status : 'paused'} />;
  if (paidThrough === null) return <Badge status="cancelled" />;
  return (
    <span className="badge warn">
      <Fill text={words.status.ends} date={<Time at={paidThrough} dateOnly />} />
    </span>
  );
}

/**
 * A modal dialog that Escape closes. While the dialog is open, the focus stays inside. Afterwards
 * the focus returns to the element that had the focus before.
 */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
}): ReactElement {
  const ref = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // A layout effect closes the dialog before React removes it from the document. The browser could
  // not return the focus from a removed dialog.
  useLayoutEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <h2 id={heading}>{title}</h2>
      {children}
    </dialog>
  );
}

/** Shows a message instead of an empty page when rendering throws. */
export class Boundary extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <main className="boot">
        <Notice kind="error" title={words.stopped}>
          <Button kind="primary" onClick={() => location.reload()}>
            {words.reload}
          </Button>
        </Notice>
      </main>
    );
  }
}
