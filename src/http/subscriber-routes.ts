// The routes under /subscriber.
import type { Api, ApiDeps } from './context.ts';
import type { Pages } from './pages.ts';
import { approvalRoutes } from './routes/approval.ts';
import { changeRoutes } from './routes/change.ts';
import { subscribedPlanRoutes } from './routes/public-plan.ts';
import { subscriberRelayRoutes } from './routes/relay.ts';
import { subscriberOfferRoutes } from './routes/sponsored.ts';
import { standingRoutes } from './routes/standing.ts';
import { subscribeRoutes } from './routes/subscribe.ts';
import { subscriberRoutes } from './routes/subscriber.ts';

export function addSubscriberRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  subscribeRoutes(api, deps);
  subscriberRoutes(api, deps, pages);
  changeRoutes(api, deps);
  subscribedPlanRoutes(api, deps);
  standingRoutes(api, deps);
  approvalRoutes(api, deps);
  subscriberRelayRoutes(api, deps);
  subscriberOfferRoutes(api, deps);
}
