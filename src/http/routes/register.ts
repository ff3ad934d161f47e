// Registers all routes. The hooks of a scope say who may call its routes.
import { createCursors } from '../../domain/accounts/cursors.ts';
import type { Tokens } from '../../domain/accounts/tokens.ts';
import type { Admission } from '../door/auth.ts';
import type { Api, ApiDeps } from '../door/context.ts';
import type { Gate } from '../door/gate.ts';
import { createPages, type Pages } from '../door/pages.ts';
import { siteRoutes } from '../site/site.ts';
import { staticFiles } from '../site/static-files.ts';
import { accessRoutes } from './access.ts';
import { analyticsRoutes } from './analytics.ts';
import { apiKeyRoutes } from './api-keys.ts';
import { appLogoRoutes, publicLogoRoutes } from './app-logo.ts';
import { appWebsiteRoutes } from './app-website.ts';
import { approvalRoutes } from './approval.ts';
import { appRoutes } from './apps.ts';
import { authRoutes } from './auth.ts';
import { changeRoutes } from './change.ts';
import { checkoutRoutes, publicCheckoutRoutes } from './checkout.ts';
import { creditRoutes, ownCreditRoutes } from './credits.ts';
import { customerListRoutes } from './customers.ts';
import { deliveryRoutes } from './deliveries.ts';
import { deskRoutes } from './desk.ts';
import { eventFeedRoutes } from './event-feed.ts';
import { eventRoutes } from './events.ts';
import { createExports, exportRoutes } from './export.ts';
import { healthRoutes } from './health.ts';
import { invoiceRoutes, ownInvoiceRoutes } from './invoices.ts';
import { pauseRoutes } from './pause.ts';
import { planRoutes } from './plans.ts';
import { profileRoutes } from './profile.ts';
import { subscribedPlanRoutes, publicPlanRoutes } from './public-plan.ts';
import { refundRoutes } from './refunds.ts';
import { merchantRelayRoutes, subscriberRelayRoutes } from './relay.ts';
import { replayRoutes } from './replays.ts';
import { subscriberOfferRoutes, checkoutOfferRoutes } from './sponsored.ts';
import { standingRoutes } from './standing.ts';
import { statementRoutes } from './statements.ts';
import { subscribeRoutes } from './subscribe.ts';
import { subscriberRoutes } from './subscriber.ts';
import { subscriptionRoutes } from './subscriptions.ts';
import { transactionRoutes } from './transactions.ts';
import { unregisteredRoutes } from './unregistered.ts';
import { webhookSettingsRoutes } from './webhook-settings.ts';
import { webhookRoutes } from './webhooks.ts';

/** Adds all routes to the API. */
export function addRoutes(app: Api, deps: ApiDeps, gate: Gate, tokens: Tokens): void {
  const cursors = createCursors(deps.jwtSecrets);
  const pages = createPages(cursors, deps.publicUrl);
  const forCallers = (prefix: string, admission: Admission, register: (api: Api) => void) => {
    void app.register(
      async (scope: Api) => {
        scope.addHook('onRequest', (request, reply) => gate.caller(request, reply, admission));
        register(scope);
      },
      { prefix },
    );
  };
  void app.register(async (scope: Api) => healthRoutes(scope, deps));
  addAnonymousRoutes(app, deps, gate, tokens);
  void app.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.publicRead(request, reply));
    publicPlanRoutes(scope, deps);
    publicCheckoutRoutes(scope, deps);
    publicLogoRoutes(scope, deps);
  });
  void app.register(async (scope: Api) => siteRoutes(scope, deps, gate));
  void app.register(async (scope: Api) => staticFiles(scope));
  forCallers('/merchant', 'merchant wallet', (api) => apiKeyRoutes(api, deps, pages));
  forCallers('/merchant', 'merchant', (api) => {
    profileRoutes(api, deps);
    appRoutes(api, deps, pages);
    appLogoRoutes(api, deps);
    appWebsiteRoutes(api, deps);
    planRoutes(api, deps, pages);
    subscriptionRoutes(api, deps, pages);
    unregisteredRoutes(api, deps, pages);
    customerListRoutes(api, deps, pages);
    creditRoutes(api, deps, pages);
    invoiceRoutes(api, deps, pages);
    pauseRoutes(api, deps);
    refundRoutes(api, deps, pages);
    accessRoutes(api, deps);
    checkoutRoutes(api, deps, pages);
    transactionRoutes(api, deps, pages);
    const exports = createExports();
    exportRoutes(api, deps, exports);
    statementRoutes(api, deps, exports);
    analyticsRoutes(api, deps);
    webhookRoutes(api, deps, pages);
    webhookSettingsRoutes(api, deps);
    deliveryRoutes(api, deps, pages);
    replayRoutes(api, deps);
    eventRoutes(api, deps, pages);
    eventFeedRoutes(api, deps, cursors);
    merchantRelayRoutes(api, deps);
    deskRoutes(api, deps);
  });
  forCallers('/subscriber', 'subscriber', (api) => {
    addSubscriberRoutes(api, deps, pages);
  });
}

/**
 * Routes that act for a wallet that has not signed in. For each kind of route, the client's network
 * address has a budget of requests.
 */
function addAnonymousRoutes(app: Api, deps: ApiDeps, gate: Gate, tokens: Tokens): void {
  void app.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.signIn(request, reply));
    scope.addHook('onSend', (request, reply) => gate.signInAnswered(request, reply));
    authRoutes(scope, deps, tokens);
  });
  void app.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.offer(request, reply));
    checkoutOfferRoutes(scope, deps, tokens);
  });
}

/** The routes under /subscriber. */
function addSubscriberRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  subscribeRoutes(api, deps);
  subscriberRoutes(api, deps, pages);
  ownInvoiceRoutes(api, deps, pages);
  ownCreditRoutes(api, deps, pages);
  changeRoutes(api, deps);
  subscribedPlanRoutes(api, deps);
  standingRoutes(api, deps);
  approvalRoutes(api, deps);
  subscriberRelayRoutes(api, deps);
  subscriberOfferRoutes(api, deps);
}
