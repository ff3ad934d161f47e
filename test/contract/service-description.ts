// The service description that docs/contract.md answers to: each of its sentences with the promise
// of docs/contract.md that keeps it.

export const kept: Record<string, string> = {
  'All addresses are relative to {base_url}.':
    "Every path in this document is relative to the service's base URL.",
  'Request and response bodies are JSON unless stated otherwise.':
    'Requests and responses carry JSON; a route that answers otherwise says so.',
  'The service handles recurring payments between merchants and subscribers.':
    'The service collects recurring payments from subscribers for merchants.',
  'A subscription is first created on a blockchain as an on-chain subscription account, identified by a program-derived address (PDA, Base58 string).':
    'A subscription begins as an account on Solana; its program-derived address, in Base58, identifies it.',
  'The subscriber then registers that subscription with the service, so that a background payment collector (the keeper) can track it and collect payments.':
    'The subscriber then registers that account with the service; from then on the keeper follows it and collects its payments.',
  'Payments are made in USDC.': 'Payments are in USDC.',
  'Amounts are integers in base units with 6 decimals and are carried as strings.':
    'An amount is a whole number of base units (6 decimals), sent as a string.',
  'A platform fee is deducted from the gross amount and the merchant receives the net amount.':
    'The platform fee is taken out of the gross amount; the merchant receives the rest, the net amount.',
  'Merchants use REST endpoints for their apps, plans, subscriptions, transactions, webhook endpoints, analytics, CSV export (Pro tier), merchant profile and API keys.':
    'Over REST a merchant reaches apps, plans, subscriptions, transactions, webhook endpoints, analytics, the CSV export (Pro tier), the profile and API keys.',
  'Subscribers use REST endpoints to register and read their subscriptions.':
    'Over REST a subscriber registers subscriptions and reads them.',
  'The service pushes signed webhook events to a merchant-provided HTTPS endpoint when subscription events occur.':
    "When something happens to a subscription, the merchant's HTTPS endpoint receives a signed webhook.",
  'Two authentication methods exist: a wallet-signed JWT (for frontend or dashboard access) and a server-to-server API key.':
    'A caller authenticates with a JWT, which a wallet obtains with its signature (browsers and dashboards), or with an API key (servers).',
  'success | boolean | true on success, false on error':
    '`success` | boolean | `true` for a success, `false` for an error',
  'data | object or null | payload on success; null on error':
    '`data` | any or null | the result of a success; null for an error',
  'error | object | present only on error': '`error` | object | there for an error only',
  'error.code | string | one of the codes in Errors':
    '`error.code` | string | a code from the table under [Errors](#errors)',
  'error.message | string | human-readable message':
    '`error.message` | string | says what is wrong, for a person to read',
  'id | string | identifier of the key, used in the revoke path':
    '`id` | string | names the key in the path that revokes it',
  'key | string | the full secret; returned only once, in the creation response; cannot be retrieved later':
    '`key` | string | the whole secret; only the response that creates the key shows it',
  'prefix | string | leading characters of the key: the environment marker plus a few more characters; it identifies a key without exposing it':
    '`prefix` | string | the marker of the environment and a few more characters: tells keys apart without exposing one',
  'Key environment markers: `sk_live_` means production; `sk_test_` means development/devnet.':
    '`sk_live_` marks a key of a production installation, `sk_test_` one of a development installation.',
  'A key value starts with its marker.': 'A key begins with its marker.',
  'appId | string | yes': '`appId` | string | required: the app',
  'planId | string | yes': '`planId` | string | required: a plan of that app',
  'subscriptionPda | string (Base58 on-chain address) | yes':
    "`subscriptionPda` | string | required: the account's address, in Base58",
  'url | string | HTTPS URL that receives events (HTTPS is required in production)':
    '`url` | string | where events are sent; production: HTTPS, port 80, 443 or above 1023',
  'secret | string | signing secret; returned only once, when the endpoint is created':
    '`secret` | string | the signing key; only the response that creates the endpoint shows it',
  'Each app has at most one webhook endpoint.': 'An app has at most one webhook endpoint.',
  'To change it, delete the existing endpoint and create a new one.':
    'To change the URL, a merchant deletes the endpoint and creates a new one.',
  'A delivery record has a status.': 'A delivery has a status.',
  'The value `failed` marks a delivery whose retries are exhausted.':
    '`failed` marks a delivery that used up its retries.',
  'A plan has an identifier and a human-readable name (seen as planId and planName in event payloads).':
    'A plan has an id and a name for people; events carry them as `planId` and `planName`.',
  'An app has an identifier (appId).': 'An app has an id; events and paths carry it as `appId`.',
  'Subscription status values: `active`, `past_due`, `cancelled`, `expired`.':
    'The status of a subscription is `active`, `past_due`, `cancelled` or `expired`.',
  'Path parameters are written in braces.': 'A path writes its parameters in braces.',
  'POST | /merchant/api-keys | wallet JWT only | no body; header Content-Type: application/json | fields id, key, prefix (see API key)':
    "`POST /merchant/api-keys` | merchant's JWT, no API key | `Content-Type: application/json`, no body | creates a key: `id`, `key`, `prefix`",
  'DELETE | /merchant/api-keys/{keyId} | wallet JWT only | none | revokes the key instantly and permanently':
    "`DELETE /merchant/api-keys/{keyId}` | merchant's JWT, no API key |  | revokes the key, at once and for good",
  'GET | /merchant/apps/{appId}/plans | API key or wallet JWT | none | the plans of the app as a list in data (plan record fields: see Resources)':
    "`GET /merchant/apps/{appId}/plans` | API key or merchant's JWT |  | `data` is the list of the app's plans",
  'POST | /subscriber/subscriptions | JWT with role subscriber | body: appId, planId, subscriptionPda (all string, required) | registers the on-chain subscription so the keeper can track it; response data per note C':
    "`POST /subscriber/subscriptions` | subscriber's JWT | `appId`, `planId`, `subscriptionPda`, all required | registers the account on chain, so that the keeper collects",
  "GET | /subscriber/subscriptions | JWT with role subscriber | none | the caller's subscriptions; data per note C":
    "`GET /subscriber/subscriptions` | subscriber's JWT |  | `data` is the list of the caller's subscriptions",
  'GET | /subscriber/subscriptions/{subscriptionId} | JWT with role subscriber | none | one subscription; data per note C':
    "`GET /subscriber/subscriptions/{subscriptionId}` | subscriber's JWT |  | `data` is one subscription of the caller",
  'GET | /subscriber/subscriptions/{subscriptionId}/transactions | JWT with role subscriber | none | transactions of that subscription; data per note C':
    "`GET /subscriber/subscriptions/{subscriptionId}/transactions` | subscriber's JWT |  | `data` is the list of its transactions",
  'POST | /auth/nonce | none stated | see note A | nonce to be signed by the wallet':
    '`POST /auth/nonce` | anyone | `wallet`, `role` | a nonce, and the message that the wallet signs',
  'POST | /auth/verify | none stated | see note A | a JWT':
    '`POST /auth/verify` | anyone | `wallet`, `nonce`, `signature` | the JWT, in exchange for the signature',
  'Successful responses use the envelope with success true and the payload in data.':
    'A success has `success: true` and its result in `data`.',
  'Only the flow is given: request a nonce, sign it with the wallet, verify the signature, receive a JWT.':
    'A client signs in with three steps: it requests a nonce, lets the wallet sign it, and sends the signature for a JWT.',
  'They are all reachable with an API key, except API key management.':
    'An API key reaches every merchant operation but the management of API keys.',
  'Only the envelope is given.': 'A subscriber endpoint puts its result into the envelope.',
  'Query parameters, filters and pagination of list endpoints: not shown (a listing of transactions with a since-time filter is used by clients, but its parameter name and format are not given).':
    'A list of transactions can be narrowed to those since a time.',
  'Wallet JWT | frontend / dashboard | request a nonce, sign it with the wallet, verify it, receive a JWT; send `Authorization: Bearer <ACCESS_TOKEN>`':
    'JWT | browsers and dashboards | a wallet signs a nonce and receives it; it is sent as `Authorization: Bearer <token>`',
  'API key | server-to-server | send `Authorization: Bearer <API_KEY>`':
    'API key | servers | it is sent as `Authorization: Bearer <key>`',
  'All subscriber endpoints require a valid JWT whose role is `subscriber`.':
    'A subscriber endpoint accepts only a valid JWT with the role `subscriber`.',
  "An API key grants full merchant access: everything the merchant's wallet JWT can do, except managing API keys.":
    "An API key may do all that its merchant's JWT may, except manage API keys.",
  'Creating and revoking API keys requires a wallet JWT; an API key is refused for them.':
    "Only a merchant's JWT creates and revokes API keys; an API key that tries is refused.",
  'The full key is shown only at creation.': 'A key is shown in full once, when it is created.',
  'A lost key cannot be recovered; it is revoked and a new one is created.':
    'A lost key cannot be read again; the merchant revokes it and creates another.',
  'Revocation is instant and permanent; the next request with a revoked key returns 401.':
    'A revocation holds from the next request on, which gets a 401, and cannot be undone.',
  'Several keys can exist at once (rotation: create a new key, switch the server to it, verify, then revoke the old one).':
    'A merchant may hold several keys, so that a new one is in use before the old one is revoked.',
  'Fine-grained scopes (read-only, per-app) do not exist; all keys have the same full merchant access.':
    'Keys have no scopes: each gives the same full access.',
  'Operations available to an API key: list/create/update apps; list/create plans; list subscriptions; list transactions; create/delete webhook endpoints; CSV export (Pro tier only); view analytics; modify merchant profile.':
    'An API key can list, create and update apps; list and create plans; list subscriptions and transactions; create and delete webhook endpoints; export CSV (Pro tier); read analytics; change the profile.',
  'Not available: manage API keys.': 'An API key cannot manage API keys.',
  'A key that is valid but not entitled to the requested resource (belongs to another merchant) gets 403.':
    'A valid key gets a 403 for what belongs to another merchant.',
  'Webhook requests from the service to the merchant are authenticated by an HMAC signature (see Events).':
    'A webhook request proves that it comes from the service by an HMAC signature.',
  "The service delivers webhook events by HTTP POST to the app's webhook endpoint URL after the keeper or a subscription action produces an event.":
    "An event that the keeper or an action on a subscription causes is sent by POST to the app's webhook endpoint.",
  'Content-Type | application/json': '`Content-Type` | `application/json`',
  'X-Service-Signature | `sha256=<hex HMAC-SHA256>`':
    '`X-Service-Signature` | `sha256=` and the HMAC-SHA256 in hex',
  'X-Service-Timestamp | Unix time in seconds':
    '`X-Service-Timestamp` | the time of sending, in Unix seconds',
  'id | string | unique event id; used for deduplication':
    "`id` | string | the event's id, the same for each delivery of it",
  'type | string | event type (see table)': '`type` | string | one of the types below',
  'createdAt | string, ISO 8601 timestamp | creation time of the event':
    '`createdAt` | ISO 8601 string | when the event was created',
  'data.subscriptionId | string | internal subscription id':
    "`data.subscriptionId` | string | the subscription's id",
  'data.subscriptionPda | string | on-chain address (Base58)':
    '`data.subscriptionPda` | string | its address on chain, in Base58',
  'data.planId | string | plan of the subscription': '`data.planId` | string | its plan',
  'data.planName | string | human-readable plan name': "`data.planName` | string | the plan's name",
  'data.subscriberWallet | string | subscriber wallet address (Base58)':
    "`data.subscriberWallet` | string | the subscriber's wallet, in Base58",
  'data.merchantWallet | string | merchant wallet address (Base58)':
    "`data.merchantWallet` | string | the merchant's wallet, in Base58",
  'data.amountGross | string | total debited, USDC base units (6 decimals)':
    '`data.amountGross` | string | what the subscriber paid, in base units of USDC',
  'data.platformFee | string | platform fee deducted':
    "`data.platformFee` | string | the fee's part of it",
  'data.amountNet | string | net amount received by the merchant':
    "`data.amountNet` | string | the merchant's part of it",
  'data.txSignature | string | blockchain transaction signature (payment events)':
    "`data.txSignature` | string | the signature of the payment's transaction (payment events)",
  'data.nextPaymentDue | string, ISO 8601 timestamp | next billing date (payment events)':
    '`data.nextPaymentDue` | ISO 8601 string | when the next payment is due (payment events)',
  'data.cancelRequestedAt | timestamp | present on cancel_requested':
    '`data.cancelRequestedAt` | ISO 8601 string | when the cancellation was requested (`cancel_requested`)',
  'Not every field appears on every event.':
    'An event has only the fields that its type calls for.',
  'Cancel events carry no amountGross or txSignature.':
    'An event about a cancellation has no `amountGross` and no `txSignature`.',
  'A receiver checks type before reading payment-specific fields.':
    'A receiver looks at `type` before it reads the fields of a payment.',
  'subscription_created | the subscription is registered after the on-chain transaction confirms | subscriptionId, planId, subscriberWallet':
    '`subscription_created` | a subscription whose account is confirmed on chain is registered | `subscriptionId`, `planId`, `subscriberWallet`',
  'payment_success | the keeper collected a payment | amountGross, amountNet, txSignature, nextPaymentDue':
    '`payment_success` | the keeper collected a payment | `amountGross`, `amountNet`, `txSignature`, `nextPaymentDue`',
  'payment_failed | a payment attempt failed (insufficient balance or delegation exhausted) | subscriptionId, subscriberWallet':
    '`payment_failed` | a payment failed: the balance was too small or the delegation used up | `subscriptionId`, `subscriberWallet`',
  'cancel_requested | the subscriber or the merchant requested cancellation | subscriptionId, cancelRequestedAt':
    '`cancel_requested` | the subscriber or the merchant asked for the end | `subscriptionId`, `cancelRequestedAt`',
  'cancel_finalized | the prepaid period elapsed and the on-chain account was closed | subscriptionId':
    '`cancel_finalized` | the paid period is over and the account on chain is closed | `subscriptionId`',
  'cancel_forced | the merchant force-cancelled the subscription | subscriptionId':
    '`cancel_forced` | the merchant ended the subscription at once | `subscriptionId`',
  'delegation_revoked | the subscriber revoked the token delegation | subscriptionId, subscriberWallet':
    '`delegation_revoked` | the subscriber took the delegation back | `subscriptionId`, `subscriberWallet`',
  'The signed content is the timestamp header value, a dot, and the raw request body string: `<timestamp>.<rawBody>`.':
    'What is signed is the timestamp header, a dot and the raw body: `<timestamp>.<body>`.',
  'The signature is HMAC-SHA256 of that content with the webhook secret, hex-encoded, prefixed with `sha256=`.':
    "The signature is the HMAC-SHA256 of that under the endpoint's secret, in hex, after `sha256=`.",
  'A receiver compares it in constant time with the header value.':
    'A receiver compares signatures in constant time.',
  'A receiver rejects a request whose timestamp differs from the current time by more than 300 seconds (5 minutes).':
    'A receiver refuses a timestamp that is more than 300 seconds from its own clock.',
  'The raw body, not a re-serialised one, is used.':
    'A receiver checks the raw body, not one that was parsed and written again.',
  'A delivery counts as failed if the endpoint does not answer with a 2xx status within 5 seconds.':
    'A delivery fails if the endpoint does not answer with a 2xx within 5 seconds.',
  'After a failure the service retries after these delays: 1st retry 1 minute; 2nd retry 5 minutes; 3rd retry 30 minutes; 4th retry 2 hours; 5th retry 12 hours.':
    'A failed delivery is retried after 1 minute, then 5 minutes, 30 minutes, 2 hours and 12 hours.',
  'After 5 retries (6 attempts in total) the delivery is marked permanently failed (status `failed`) and no further attempt is made for that event.':
    'After 6 attempts (5 retries) a delivery is `failed` for good and is not sent again.',
  'The same event id can arrive more than once; a receiver deduplicates by id and handles events idempotently.':
    'An event may arrive more than once; a receiver deduplicates by its id and handles it idempotently.',
  'Failed deliveries can be listed per webhook endpoint through the API and are shown in the dashboard.':
    'Failed deliveries are listed for each endpoint, over the API and in `billing deliveries`.',
  'Error responses use the envelope with success false, data null and an error object with code and message.':
    'An error has `success: false`, `data: null` and an `error` with `code` and `message`.',
  'UNAUTHORIZED | 401 | missing, invalid, expired or revoked credentials (including a revoked API key)':
    '`UNAUTHORIZED` | 401 | credentials are missing, malformed, expired or revoked',
  'FORBIDDEN | 403 | insufficient permissions for the endpoint, or the key does not have access to the resource':
    "`FORBIDDEN` | 403 | the caller's role may not use the route, or the key not the resource",
  'NOT_FOUND | 404 | the resource does not exist': '`NOT_FOUND` | 404 | there is no such resource',
  'VALIDATION_ERROR | 400 | the request body failed validation':
    '`VALIDATION_ERROR` | 400 | the request does not have the form that the route asks for',
  'CONFLICT | 409 | the resource already exists': '`CONFLICT` | 409 | the resource exists already',
  'INTERNAL_ERROR | 500 | server error':
    '`INTERNAL_ERROR` | 500; 503 with `Retry-After` while the database or the chain is out of reach | the service failed',
  'Rate limiting: when the rate limit is exceeded, the response has HTTP status 429 and a Retry-After header.':
    'A request over the rate limit gets status 429 and a `Retry-After` header.',
  'When webhook signature verification fails, a receiver answers 401 (receiver-side behaviour).':
    "A receiver that cannot verify a webhook's signature answers 401.",
  'Rate limit, Free tier | 100 requests per minute': 'Requests, Free tier | 100 a minute',
  'Rate limit, Pro tier | 1,000 requests per minute': 'Requests, Pro tier | 1,000 a minute',
  'Webhook endpoints per app | 1': 'Webhook endpoints | 1 for each app',
  'Webhook response deadline | 5 seconds': 'Answer to a webhook | within 5 seconds',
  'Webhook timestamp tolerance | 300 seconds': "Age of a webhook's timestamp | 300 seconds",
  'Webhook retries | 5 (6 attempts in total)': 'Retries of a webhook | 5, which makes 6 attempts',
  'CSV export | Pro tier only': 'CSV export | Pro tier',
  'A request over the rate limit gets 429 with Retry-After; the client waits for that period and retries.':
    'After a 429 the client waits for `Retry-After` and succeeds.',
};

/** Sentences of the service description that promise nothing. */
export const promisingNothing = [
  'This single document covers the whole service: what it does, its resources, states, endpoints, authentication, webhook events, errors, limits and versioning.',
  'Other delivery statuses and all other delivery fields: not shown.',
  'See Events for the envelope and the data fields.',
  'Full field lists of plan, app, subscription and transaction records: not shown.',
  'Transitions: not shown (including which status each cancel event leads to).',
  'Request and response bodies of the two /auth endpoints: not shown.',
  'Paths and payloads of these merchant operations: not shown: list/create/update apps, create plans, list subscriptions, list transactions, create webhook endpoint (takes the url; returns the secret once), delete webhook endpoint, list webhook deliveries of an endpoint, CSV export, analytics, modify merchant profile.',
  'Shapes of the data returned by the subscriber endpoints: not shown.',
  'API keys are for server-side use only and are not to be used in client-side code.',
  'JWT lifetime and claims other than role: not shown.',
  'The complete set of data fields per event type beyond the key fields: not shown.',
  'The code name of the 429 error body: not shown.',
  'Whether the rate limit is counted per key, per merchant or per address: not shown.',
  'Versioning of the interface: not shown.',
];
