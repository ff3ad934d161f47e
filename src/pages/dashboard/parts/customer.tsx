// A customer's name, and links to the customer.
import type { ReactElement } from 'react';
import { foreign, shortAddress } from '../../shared/text.ts';

interface Of {
  externalId: string | null;
  subscriberWallet: string;
}

/**
 * Returns the merchant's id for the customer or, without such an id, the shortened wallet address.
 */
export const customerName = ({ externalId, subscriberWallet }: Of): string =>
  externalId === null ? shortAddress(subscriberWallet) : foreign(externalId, 60);

/** Returns the link to the page of a customer. */
export const customerPage = ({ externalId, subscriberWallet }: Of): string =>
  `#/customers/${encodeURIComponent(externalId ?? subscriberWallet)}`;

/**
 * Shows a link to the customer's page, or to `href`. The link's text is the merchant's id for the
 * customer, with the wallet below. Without such an id, the link's text is the wallet.
 */
export function Customer({ of, href = customerPage(of) }: { of: Of; href?: string }): ReactElement {
  const { externalId, subscriberWallet } = of;
  return (
    <span className="customer">
      <a href={href} title={subscriberWallet}>
        {externalId === null ? (
          <code>{shortAddress(subscriberWallet)}</code>
        ) : (
          <bdi>{foreign(externalId, 60)}</bdi>
        )}
      </a>
      {externalId !== null && (
        <code className="muted small" title={subscriberWallet}>
          {shortAddress(subscriberWallet)}
        </code>
      )}
    </span>
  );
}
