// A small SaaS: who has a subscription reads the reports. Customers are the names that they sign in
// with; a real product has accounts and a database in the places that say so.
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { html } from 'hono/html';
import { accessOf, cancel, checkoutUrl, forgetAccess, verifiedEvent } from './billing.ts';

const port = Number(process.env.PORT ?? 4000);
// One of the app's returnOrigins, or unset: then the checkout page does not lead back.
const ownUrl = process.env.SAAS_URL;

// In a database use a unique column, in the transaction that does the work.
const seen = new Set<string>();
const news = new Map<string, string[]>();

const page = (body: ReturnType<typeof html>) =>
  html`<!doctype html><title>Reports</title>
    <body>
      ${body}
    </body>`;

const app = new Hono();

app.get('/', async (c) => {
  const customer = getCookie(c, 'customer');
  if (customer === undefined)
    return c.html(
      page(
        html`<form method="post" action="/sign-in">
          <input name="customer" placeholder="your name" required /> <button>Sign in</button>
        </form>`,
      ),
    );
  const { hasAccess, accessUntil } = await accessOf(customer);
  const lines = news.get(customer) ?? [];
  return c.html(
    page(html`
      <p>
        Hello ${customer}. ${hasAccess ? `You have access until ${accessUntil}.` : 'No plan yet.'}
      </p>
      ${
        hasAccess
          ? html`<a href="/reports">Reports</a>
              <form method="post" action="/cancel"><button>Cancel</button></form>`
          : html`<form method="post" action="/subscribe"><button>Subscribe</button></form>`
      }
      <ul>
        ${lines.map((line) => html`<li>${line}</li>`)}
      </ul>
    `),
  );
});

app.post('/sign-in', async (c) => {
  const { customer } = await c.req.parseBody();
  // A real product checks a password here.
  setCookie(c, 'customer', String(customer), { httpOnly: true, sameSite: 'Lax' });
  return c.redirect('/', 303);
});

app.post('/subscribe', async (c) => {
  const customer = getCookie(c, 'customer');
  if (customer === undefined) return c.redirect('/', 303);
  return c.redirect(await checkoutUrl(customer, ownUrl), 303);
});

app.get('/reports', async (c) => {
  const customer = getCookie(c, 'customer');
  const { hasAccess, reason } =
    customer === undefined ? { hasAccess: false, reason: 'signed_out' } : await accessOf(customer);
  if (!hasAccess) return c.text(`Payment required: ${reason}`, 402);
  return c.text('All the reports.');
});

app.post('/cancel', async (c) => {
  const customer = getCookie(c, 'customer');
  const { subscriptionId } =
    customer === undefined ? { subscriptionId: null } : await accessOf(customer);
  if (subscriptionId !== null) await cancel(subscriptionId);
  return c.redirect('/', 303);
});

// billing sends every event here. It expects an answer within 5 seconds.
app.post('/webhooks', async (c) => {
  const body = Buffer.from(await c.req.arrayBuffer());
  const event = verifiedEvent(
    body,
    c.req.header('x-service-signature'),
    c.req.header('x-service-timestamp'),
  );
  if (event === undefined) return c.body(null, 401);
  const customer = event.data.externalId;
  if (!seen.has(event.id) && typeof customer === 'string') {
    seen.add(event.id);
    forgetAccess(customer);
    news.set(customer, [...(news.get(customer) ?? []), inWords(event)]);
  }
  return c.body(null, 204);
});

function inWords({ type, data }: { type: string; data: { failureReason?: string } }): string {
  if (type === 'payment_failed') return `${type}: ${data.failureReason ?? ''}`;
  return type;
}

const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, ({ port: own }) =>
  console.log(`listening on ${own}`),
);
server.on('error', ({ message }: Error) => {
  console.error(message);
  process.exit(1);
});
