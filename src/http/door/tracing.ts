// The trace of a request: W3C Trace Context (src/trace.ts).
import { parseTraceparent, withTrace } from '../../trace.ts';
import type { Api } from './context.ts';

/**
 * If a request has a valid `traceparent`, its log lines have the trace id, and the events that the
 * request causes are stored with the trace.
 */
export function traceRequests(app: Api): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const trace = parseTraceparent(request.headers.traceparent);
    if (trace !== undefined) request.log = request.log.child({ traceId: trace.traceId });
    done();
  });
  // The trace is set after the body has been parsed, because the body parser loses the async
  // context that earlier hooks set.
  app.addHook('preHandler', ({ headers }, _reply, done) => {
    const trace = parseTraceparent(headers.traceparent);
    if (trace === undefined) done();
    else withTrace(trace, done);
  });
}
