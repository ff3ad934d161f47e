// Shows subscribers what the app's merchant wrote about the app.
import type { ReactElement } from 'react';
import { words } from './language.ts';
import type { PublicPlan } from './session.ts';
import { foreign, safeUrl } from './text.ts';

/** The app's logo, or the first letter of the seller's name. */
export function Mark({ plan, seller }: { plan: PublicPlan; seller: string }): ReactElement {
  const { logoUrl } = plan;
  // Only the path of the URL is used, so that the image always comes from the same server as the
  // page.
  if (logoUrl !== null && URL.canParse(logoUrl))
    return <img className="logo" src={new URL(logoUrl).pathname} alt="" />;
  return (
    <span className="monogram" aria-hidden="true">
      {(Array.from(seller)[0] ?? '•').toUpperCase()}
    </span>
  );
}

/** Whether the URL has the origin of a website that is proven to belong to the merchant. */
function isProven({ websiteProven, websiteUrl }: PublicPlan, url: string): boolean {
  const website = websiteProven ? safeUrl(websiteUrl) : undefined;
  return website !== undefined && new URL(website).origin === new URL(url).origin;
}

/**
 * The app's support, terms and privacy notice. A URL becomes a link only if it has the origin of
 * the proven website, the mail address only if the app has a proven website. Everything else is
 * shown as text, because it is only the merchant's claim. Renders nothing when the app has none of
 * them.
 */
export function SellerLinks({ plan }: { plan: PublicPlan }): ReactElement {
  const { supportEmail, supportUrl, termsUrl, privacyUrl } = plan;
  const text = words.seller;
  const links: readonly (readonly [name: string, href: string | undefined])[] = [
    [text.support, safeUrl(supportUrl)],
    [text.terms, safeUrl(termsUrl)],
    [text.privacy, safeUrl(privacyUrl)],
  ];
  const filledLinks = links.flatMap(([name, href]) =>
    href === undefined ? [] : [[name, href] as const],
  );
  if (filledLinks.length === 0 && supportEmail === null) return <></>;
  return (
    <p className="muted small seller-links">
      {supportEmail !== null && (
        <span>
          {text.contact}{' '}
          {plan.websiteProven ? (
            <a href={mailto(supportEmail)}>{foreign(supportEmail, 100)}</a>
          ) : (
            <bdi>{foreign(supportEmail, 100)}</bdi>
          )}
        </span>
      )}
      {filledLinks.map(([name, href]) =>
        isProven(plan, href) ? (
          <a key={name} href={href} target="_blank" rel="noreferrer noopener nofollow">
            {name}
          </a>
        ) : (
          <span key={name}>
            {name}: <bdi>{foreign(href, 100)}</bdi>
          </span>
        ),
      )}
    </p>
  );
}

/**
 * Returns a mailto: link to the address. The address is escaped, so that it cannot set a subject.
 */
function mailto(address: string): string {
  const at = address.lastIndexOf('@');
  const [name, domain] = [address.slice(0, at), address.slice(at + 1)];
  return `mailto:${encodeURIComponent(name)}@${encodeURIComponent(domain)}`;
}
