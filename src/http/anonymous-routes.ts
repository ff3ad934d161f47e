// Routes that act for a wallet that has not signed in. For each kind of route, the client's network
// address has a budget of requests.
import type { Tokens } from '../domain/accounts/tokens.ts';
import type { Api, ApiDeps } from './context.ts';
import type { Gate } from './gate.ts';
import { authRoutes } from './routes/auth.ts';
import { checkoutOfferRoutes } from './routes/sponsored.ts';

export function addAnonymousRoutes(app: Api, deps: ApiDeps, gate: Gate, tokens: Tokens): void {
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
