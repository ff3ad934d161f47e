// Every sentence of the service's contract (service.md), in its order and to the letter; the cells of a table's row are joined by " | ". Each has a test of
// its name in this folder (rules.ts), or a reason below why it cannot have one. test/contract/sentences.test.ts holds the list to the tests, and to the
// document where it lies beside the repository.

export const sentences = [
  // Subscription Billing Service: API Keys, Subscriber API and Webhooks
  'This single document covers the whole service: what it does, its resources, states, endpoints, authentication, webhook events, errors, limits and versioning.',
  'All addresses are relative to {base_url}.',
  'Request and response bodies are JSON unless stated otherwise.',
  // What the service does
  'The service handles recurring payments between merchants and subscribers.',
  'A subscription is first created on a blockchain as an on-chain subscription account, identified by a program-derived address (PDA, Base58 string).',
  'The subscriber then registers that subscription with the service, so that a background payment collector (the keeper) can track it and collect payments.',
  'Payments are made in USDC.',
  'Amounts are integers in base units with 6 decimals and are carried as strings.',
  'A platform fee is deducted from the gross amount and the merchant receives the net amount.',
  'Merchants use REST endpoints for their apps, plans, subscriptions, transactions, webhook endpoints, analytics, CSV export (Pro tier), merchant profile and API keys.',
  'Subscribers use REST endpoints to register and read their subscriptions.',
  'The service pushes signed webhook events to a merchant-provided HTTPS endpoint when subscription events occur.',
  'Two authentication methods exist: a wallet-signed JWT (for frontend or dashboard access) and a server-to-server API key.',
  // Resources and their fields
  // Response envelope (all endpoints)
  'success | boolean | true on success, false on error',
  'data | object or null | payload on success; null on error',
  'error | object | present only on error',
  'error.code | string | one of the codes in Errors',
  'error.message | string | human-readable message',
  // API key
  'id | string | identifier of the key, used in the revoke path',
  'key | string | the full secret; returned only once, in the creation response; cannot be retrieved later',
  'prefix | string | leading characters of the key: the environment marker plus a few more characters; it identifies a key without exposing it',
  'Key environment markers: `sk_live_` means production; `sk_test_` means development/devnet.',
  'A key value starts with its marker.',
  // Subscription registration (input)
  'appId | string | yes',
  'planId | string | yes',
  'subscriptionPda | string (Base58 on-chain address) | yes',
  // Webhook endpoint
  'url | string | HTTPS URL that receives events (HTTPS is required in production)',
  'secret | string | signing secret; returned only once, when the endpoint is created',
  'Each app has at most one webhook endpoint.',
  'To change it, delete the existing endpoint and create a new one.',
  // Webhook delivery
  'A delivery record has a status.',
  'The value `failed` marks a delivery whose retries are exhausted.',
  'Other delivery statuses and all other delivery fields: not shown.',
  // Webhook event
  'See Events for the envelope and the data fields.',
  // Other records
  'A plan has an identifier and a human-readable name (seen as planId and planName in event payloads).',
  'An app has an identifier (appId).',
  'Full field lists of plan, app, subscription and transaction records: not shown.',
  // States and transitions
  'Subscription status values: `active`, `past_due`, `cancelled`, `expired`.',
  'Transitions: not shown (including which status each cancel event leads to).',
  // Endpoints
  'Path parameters are written in braces.',
  'POST | /merchant/api-keys | wallet JWT only | no body; header Content-Type: application/json | fields id, key, prefix (see API key)',
  'DELETE | /merchant/api-keys/{keyId} | wallet JWT only | none | revokes the key instantly and permanently',
  'GET | /merchant/apps/{appId}/plans | API key or wallet JWT | none | the plans of the app as a list in data (plan record fields: see Resources)',
  'POST | /subscriber/subscriptions | JWT with role subscriber | body: appId, planId, subscriptionPda (all string, required) | registers the on-chain subscription so the keeper can track it; response data per note C',
  "GET | /subscriber/subscriptions | JWT with role subscriber | none | the caller's subscriptions; data per note C",
  'GET | /subscriber/subscriptions/{subscriptionId} | JWT with role subscriber | none | one subscription; data per note C',
  'GET | /subscriber/subscriptions/{subscriptionId}/transactions | JWT with role subscriber | none | transactions of that subscription; data per note C',
  'POST | /auth/nonce | none stated | see note A | nonce to be signed by the wallet',
  'POST | /auth/verify | none stated | see note A | a JWT',
  'Successful responses use the envelope with success true and the payload in data.',
  'Request and response bodies of the two /auth endpoints: not shown.',
  'Only the flow is given: request a nonce, sign it with the wallet, verify the signature, receive a JWT.',
  'Paths and payloads of these merchant operations: not shown: list/create/update apps, create plans, list subscriptions, list transactions, create webhook endpoint (takes the url; returns the secret once), delete webhook endpoint, list webhook deliveries of an endpoint, CSV export, analytics, modify merchant profile.',
  'They are all reachable with an API key, except API key management.',
  'Shapes of the data returned by the subscriber endpoints: not shown.',
  'Only the envelope is given.',
  'Query parameters, filters and pagination of list endpoints: not shown (a listing of transactions with a since-time filter is used by clients, but its parameter name and format are not given).',
  // Authentication
  'Wallet JWT | frontend / dashboard | request a nonce, sign it with the wallet, verify it, receive a JWT; send `Authorization: Bearer <ACCESS_TOKEN>`',
  'API key | server-to-server | send `Authorization: Bearer <API_KEY>`',
  'All subscriber endpoints require a valid JWT whose role is `subscriber`.',
  "An API key grants full merchant access: everything the merchant's wallet JWT can do, except managing API keys.",
  'Creating and revoking API keys requires a wallet JWT; an API key is refused for them.',
  'The full key is shown only at creation.',
  'A lost key cannot be recovered; it is revoked and a new one is created.',
  'Revocation is instant and permanent; the next request with a revoked key returns 401.',
  'Several keys can exist at once (rotation: create a new key, switch the server to it, verify, then revoke the old one).',
  'Fine-grained scopes (read-only, per-app) do not exist; all keys have the same full merchant access.',
  'API keys are for server-side use only and are not to be used in client-side code.',
  'Operations available to an API key: list/create/update apps; list/create plans; list subscriptions; list transactions; create/delete webhook endpoints; CSV export (Pro tier only); view analytics; modify merchant profile.',
  'Not available: manage API keys.',
  'A key that is valid but not entitled to the requested resource (belongs to another merchant) gets 403.',
  'Webhook requests from the service to the merchant are authenticated by an HMAC signature (see Events).',
  'JWT lifetime and claims other than role: not shown.',
  // Events
  "The service delivers webhook events by HTTP POST to the app's webhook endpoint URL after the keeper or a subscription action produces an event.",
  // Request headers sent by the service
  'Content-Type | application/json',
  'X-Service-Signature | `sha256=<hex HMAC-SHA256>`',
  'X-Service-Timestamp | Unix time in seconds',
  // Body
  'id | string | unique event id; used for deduplication',
  'type | string | event type (see table)',
  'createdAt | string, ISO 8601 timestamp | creation time of the event',
  'data.subscriptionId | string | internal subscription id',
  'data.subscriptionPda | string | on-chain address (Base58)',
  'data.planId | string | plan of the subscription',
  'data.planName | string | human-readable plan name',
  'data.subscriberWallet | string | subscriber wallet address (Base58)',
  'data.merchantWallet | string | merchant wallet address (Base58)',
  'data.amountGross | string | total debited, USDC base units (6 decimals)',
  'data.platformFee | string | platform fee deducted',
  'data.amountNet | string | net amount received by the merchant',
  'data.txSignature | string | blockchain transaction signature (payment events)',
  'data.nextPaymentDue | string, ISO 8601 timestamp | next billing date (payment events)',
  'data.cancelRequestedAt | timestamp | present on cancel_requested',
  'Not every field appears on every event.',
  'Cancel events carry no amountGross or txSignature.',
  'A receiver checks type before reading payment-specific fields.',
  // Event types
  'subscription_created | the subscription is registered after the on-chain transaction confirms | subscriptionId, planId, subscriberWallet',
  'payment_success | the keeper collected a payment | amountGross, amountNet, txSignature, nextPaymentDue',
  'payment_failed | a payment attempt failed (insufficient balance or delegation exhausted) | subscriptionId, subscriberWallet',
  'cancel_requested | the subscriber or the merchant requested cancellation | subscriptionId, cancelRequestedAt',
  'cancel_finalized | the prepaid period elapsed and the on-chain account was closed | subscriptionId',
  'cancel_forced | the merchant force-cancelled the subscription | subscriptionId',
  'delegation_revoked | the subscriber revoked the token delegation | subscriptionId, subscriberWallet',
  'The complete set of data fields per event type beyond the key fields: not shown.',
  // Signature
  'The signed content is the timestamp header value, a dot, and the raw request body string: `<timestamp>.<rawBody>`.',
  'The signature is HMAC-SHA256 of that content with the webhook secret, hex-encoded, prefixed with `sha256=`.',
  'A receiver compares it in constant time with the header value.',
  'A receiver rejects a request whose timestamp differs from the current time by more than 300 seconds (5 minutes).',
  'The raw body, not a re-serialised one, is used.',
  // Delivery and retries
  'A delivery counts as failed if the endpoint does not answer with a 2xx status within 5 seconds.',
  'After a failure the service retries after these delays: 1st retry 1 minute; 2nd retry 5 minutes; 3rd retry 30 minutes; 4th retry 2 hours; 5th retry 12 hours.',
  'After 5 retries (6 attempts in total) the delivery is marked permanently failed (status `failed`) and no further attempt is made for that event.',
  'The same event id can arrive more than once; a receiver deduplicates by id and handles events idempotently.',
  'Failed deliveries can be listed per webhook endpoint through the API and are shown in the dashboard.',
  // Errors
  'Error responses use the envelope with success false, data null and an error object with code and message.',
  'UNAUTHORIZED | 401 | missing, invalid, expired or revoked credentials (including a revoked API key)',
  'FORBIDDEN | 403 | insufficient permissions for the endpoint, or the key does not have access to the resource',
  'NOT_FOUND | 404 | the resource does not exist',
  'VALIDATION_ERROR | 400 | the request body failed validation',
  'CONFLICT | 409 | the resource already exists',
  'INTERNAL_ERROR | 500 | server error',
  'Rate limiting: when the rate limit is exceeded, the response has HTTP status 429 and a Retry-After header.',
  'The code name of the 429 error body: not shown.',
  'When webhook signature verification fails, a receiver answers 401 (receiver-side behaviour).',
  // Limits
  'Rate limit, Free tier | 100 requests per minute',
  'Rate limit, Pro tier | 1,000 requests per minute',
  'Webhook endpoints per app | 1',
  'Webhook response deadline | 5 seconds',
  'Webhook timestamp tolerance | 300 seconds',
  'Webhook retries | 5 (6 attempts in total)',
  'CSV export | Pro tier only',
  'A request over the rate limit gets 429 with Retry-After; the client waits for that period and retries.',
  'Whether the rate limit is counted per key, per merchant or per address: not shown.',
  // Versioning
  'Versioning of the interface: not shown.',
] as const;

export type Sentence = (typeof sentences)[number];

/** Sentences that promise nothing which could be seen to hold or not. */
export const promisingNothing: Partial<Record<Sentence, string>> = {
  'This single document covers the whole service: what it does, its resources, states, endpoints, authentication, webhook events, errors, limits and versioning.':
    'about the document',
  'See Events for the envelope and the data fields.': 'a reference; those are tested under Events',
  'Other delivery statuses and all other delivery fields: not shown.': 'left open',
  'Full field lists of plan, app, subscription and transaction records: not shown.': 'left open',
  'Transitions: not shown (including which status each cancel event leads to).': 'left open',
  'Request and response bodies of the two /auth endpoints: not shown.': 'left open',
  'Paths and payloads of these merchant operations: not shown: list/create/update apps, create plans, list subscriptions, list transactions, create webhook endpoint (takes the url; returns the secret once), delete webhook endpoint, list webhook deliveries of an endpoint, CSV export, analytics, modify merchant profile.':
    'left open; that they exist and an API key reaches them is the next sentence',
  'Shapes of the data returned by the subscriber endpoints: not shown.': 'left open',
  'API keys are for server-side use only and are not to be used in client-side code.':
    'what merchants do with their keys is theirs; docs/merchants.md tells them',
  'JWT lifetime and claims other than role: not shown.': 'left open',
  'The complete set of data fields per event type beyond the key fields: not shown.': 'left open',
  'The code name of the 429 error body: not shown.': 'left open',
  'Whether the rate limit is counted per key, per merchant or per address: not shown.': 'left open',
  'Versioning of the interface: not shown.': 'left open',
};
