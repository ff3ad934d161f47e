// Routes for the dashboard.
import type { Api, ApiDeps } from '../door/context.ts';
import { attentionRoutes } from './attention.ts';
import { merchantChangeRoutes } from './change.ts';
import { customerRoutes } from './customer.ts';
import { publishingCostRoutes } from './publishing-cost.ts';
import { searchRoutes } from './search.ts';
import { timelineRoutes } from './timeline.ts';

export function deskRoutes(api: Api, deps: ApiDeps): void {
  timelineRoutes(api, deps);
  searchRoutes(api, deps);
  attentionRoutes(api, deps);
  customerRoutes(api, deps);
  publishingCostRoutes(api, deps);
  merchantChangeRoutes(api, deps);
}
