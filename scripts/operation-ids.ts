// Operation ids consist of a verb and a noun, because generated clients name their functions after
// them.

/** Operation ids that differ from the rules of operationId(). */
const named: Record<string, string> = {
  'GET /healthz': 'getHealth',
  'GET /readyz': 'getReadiness',
  'POST /auth/nonce': 'createNonce',
  'POST /auth/verify': 'verifySignIn',
  'GET /plans/{planId}': 'getPublicPlan',
  'GET /checkout-sessions/{checkoutSessionId}': 'getPublicCheckoutSession',
  'DELETE /merchant/api-keys/{keyId}': 'revokeApiKey',
  'GET /merchant/profile': 'getProfile',
  'PATCH /merchant/profile': 'updateProfile',
  'POST /merchant/apps/{appId}/logo': 'setLogo',
  'DELETE /merchant/apps/{appId}/logo': 'deleteLogo',
  'POST /merchant/apps/{appId}/website/verify': 'verifyWebsite',
  'GET /merchant/apps/{appId}/access': 'getAccess',
  'GET /merchant/apps/{appId}/customer': 'getCustomerSums',
  'GET /merchant/apps/{appId}/refunds': 'listAllRefunds',
  'GET /merchant/apps/{appId}/analytics': 'getAnalytics',
  'GET /merchant/apps/{appId}/transactions/export': 'exportTransactions',
  'GET /merchant/apps/{appId}/events/next': 'followEvents',
  'POST /merchant/apps/{appId}/events/sample': 'sendSampleEvent',
  'GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/timeline': 'getSubscriptionTimeline',
  'GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/upcoming': 'getUpcomingInvoice',
  'GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/change': 'getSubscriptionChange',
  'POST /merchant/apps/{appId}/subscriptions/{subscriptionId}/reinstate': 'createReinstatement',
  'POST /merchant/apps/{appId}/plans/{planId}/transaction': 'createPlanTransaction',
  'POST /merchant/apps/{appId}/plans/{planId}/pullers-transaction': 'createPullersTransaction',
  'POST /merchant/apps/{appId}/webhooks/{webhookId}/rotate-secret': 'rotateWebhookSecret',
  'GET /merchant/apps/{appId}/webhooks/{webhookId}/deliveries': 'listWebhookDeliveries',
  'GET /merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}': 'getWebhookDelivery',
  'POST /merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}/replay':
    'replayWebhookDelivery',
  'GET /merchant/subscriptions': 'listAllSubscriptions',
  'GET /merchant/transactions': 'listAllTransactions',
  'GET /merchant/events': 'listAllEvents',
  'POST /merchant/transactions': 'sendMerchantTransaction',
  'POST /subscriber/transactions': 'sendSubscriberTransaction',
  'POST /subscriber/subscriptions': 'registerSubscription',
  'GET /subscriber/plans/{planId}': 'getPlanTerms',
  'GET /subscriber/plans/{planId}/standing': 'getPlanStanding',
  'POST /subscriber/plans/{planId}/subscribe': 'createSubscribeTransaction',
  'POST /checkout/plans/{planId}/offers': 'createCheckoutOffer',
  'GET /checkout/offers/{offerId}': 'getCheckoutOffer',
  'POST /checkout/offers/{offerId}/transaction': 'sendCheckoutTransaction',
  'POST /subscriber/offers/{offerId}/transaction': 'sendSponsoredTransaction',
  'POST /subscriber/approval/revoke': 'createRevokeTransaction',
  'POST /subscriber/subscriptions/{subscriptionId}/cancel': 'createCancelTransaction',
  'POST /subscriber/subscriptions/{subscriptionId}/repair': 'createRepairTransaction',
  'POST /subscriber/subscriptions/{subscriptionId}/resume': 'createResumeTransaction',
  'POST /subscriber/subscriptions/{subscriptionId}/close': 'createCloseTransaction',
  'POST /subscriber/subscriptions/{subscriptionId}/change': 'createChangeTransaction',
};
const verbs: Record<string, string> = { POST: 'create', PATCH: 'update', DELETE: 'delete' };

/**
 * Returns the id of an operation. A path that ends with a parameter is one object (getPlan,
 * updatePlan). A path that ends with a word after a parameter is an action (cancelSubscription) or
 * a list of children (listPlans). Ids of subscriber routes contain "Own".
 */
export function operationId(method: string, path: string): string {
  const known = named[`${method} ${path}`];
  if (known !== undefined) return known;
  const parts = path.split('/').filter((part) => part !== '');
  const last = parts.at(-1) ?? '';
  const own = parts[0] === 'subscriber' ? 'Own' : '';
  if (last.startsWith('{')) {
    const noun = own + singular(pascal(parts.at(-2) ?? ''));
    return `${verbs[method] ?? 'get'}${noun}`;
  }
  if (method === 'GET') return `list${own}${pascal(last)}`;
  if (last.endsWith('s')) return `${verbs[method] ?? 'create'}${own}${singular(pascal(last))}`;
  const [verb = '', ...object] = pascal(last).split(/(?=[A-Z])/);
  return verb.toLowerCase() + own + singular(pascal(parts.at(-3) ?? '')) + object.join('');
}

function pascal(words: string): string {
  return words
    .split(/[^a-zA-Z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

function singular(noun: string): string {
  return noun.replace(/ies$/, 'y').replace(/s$/, '');
}
