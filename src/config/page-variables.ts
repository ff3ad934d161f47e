// Environment variables with the addresses that the browser pages link to.
import { contact, onrampUrl } from './parse.ts';

export const pageVariables = {
  reportUrl: {
    name: 'REPORT_URL',
    about:
      'where subscribers report abuse, an https:// URL or a mailto: address: the pages link to it, with the id of the plan',
    parse: contact,
  },
  contactUrl: {
    name: 'CONTACT_URL',
    about:
      'where merchants reach you, an https:// URL or a mailto: address: the dashboard links to it for the Pro tier, with the ids of merchant and app; default: REPORT_URL',
    parse: contact,
  },
  onrampUrl: {
    name: 'ONRAMP_URL',
    about:
      'where a buyer whose wallet lacks USDC can buy it: an https URL in which {address} becomes the wallet’s address and {amount} the USDC that it lacks; default: no link',
    parse: onrampUrl,
  },
};
