// Open Graph tags of a plan's page. Other sites and chats then show the plan's name, price and app
// beside a link to the plan.
import type { PublicPlanRow } from '../../db/subscriptions/plans.ts';
import { amountDisplay, replaceHidden } from '../../format.ts';
import { logoUrlOf } from '../shapes/logo-url.ts';

const MAX_TITLE = 120;
const MAX_DESCRIPTION = 300;
const NAMED_PERIODS: Readonly<Record<number, string>> = {
  1: 'hour',
  24: 'day',
  168: 'week',
  730: 'month',
  8760: 'year',
};

/** Returns a page's HTML with the title and the tags of a plan. */
export function withPlanTags(html: string, plan: PublicPlanRow, publicUrl: string): string {
  const title = safe(`${plan.name} · ${plan.appName}`, MAX_TITLE);
  const price = `${amountDisplay(plan.amount)} every ${periodName(plan.periodHours)}`;
  const about = [price, plan.appDescription ?? ''].filter((text) => text !== '').join('. ');
  const logo = logoUrlOf(publicUrl, plan.appId, plan.logoVersion);
  const tags = [
    ['og:type', 'website'],
    ['og:title', title],
    ['og:description', safe(about, MAX_DESCRIPTION)],
    ['og:site_name', safe(plan.merchantName ?? plan.appName, MAX_TITLE)],
    ['og:url', safe(`${publicUrl}/s/${plan.id}`, MAX_DESCRIPTION)],
    ...(logo === null ? [] : [['og:image', safe(logo, MAX_DESCRIPTION)]]),
  ].map(([name = '', content = '']) => `<meta property="${name}" content="${content}">\n`);
  // The replacements are functions, because replace() expands patterns such as $& in a string.
  return html
    .replace(/<title>.*?<\/title>/, () => `<title>${title}</title>`)
    .replace('</head>', () => `${tags.join('')}</head>`);
}

function periodName(hours: number): string {
  return NAMED_PERIODS[hours] ?? (hours % 24 === 0 ? `${hours / 24} days` : `${hours} hours`);
}

/**
 * Makes a merchant's text safe in an HTML attribute: replaces hidden characters with spaces,
 * shortens the text and escapes it.
 */
function safe(text: string, maxLength: number): string {
  const characters = Array.from(replaceHidden(text, () => ' '));
  return escapeHtml(characters.slice(0, maxLength).join(''));
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
