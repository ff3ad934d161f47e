// Types of a route in the OpenAPI document: its parameters, its body and the data of its response.
import type { paths } from './openapi.ts';

export type Method = 'get' | 'post' | 'patch' | 'delete';

/** The routes that have a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: object } ? P : never;
}[keyof paths];

type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type Given<O, K extends 'path' | 'query' | 'header'> = O extends { parameters: infer A }
  ? K extends keyof A
    ? [NonNullable<A[K]>] extends [never]
      ? undefined
      : NonNullable<A[K]>
    : undefined
  : undefined;
type BodyOf<O> = O extends { requestBody: { content: { 'application/json': infer B } } }
  ? { body: B }
  : O extends { requestBody?: { content: { 'application/json': infer B } } }
    ? { body?: B }
    : { body?: undefined };
type ResponseOf<O> = O extends { responses: infer R }
  ? R extends { 200: { content: { 'application/json': infer A } } }
    ? A
    : R extends { 201: { content: { 'application/json': infer A } } }
      ? A
      : never
  : never;

/** Options of a call besides the parameters of its route. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Shows up in the service's logs and comes back as `requestId` of an error. */
  requestId?: string | undefined;
}

/** Query parameters; a list of one value can be given as the value. */
type Filters<Q> = {
  [K in keyof Q]: Q[K] extends readonly (infer V)[] | undefined ? Q[K] | V : Q[K];
};

/**
 * The arguments of a call: `path` and `query` parameters and the `body`, each only where the route
 * has it.
 */
export type Arguments<P extends keyof paths, M extends Method> = CallOptions &
  BodyOf<Operation<P, M>> &
  (Given<Operation<P, M>, 'path'> extends infer G
    ? [G] extends [undefined]
      ? { path?: undefined }
      : { path: G }
    : never) &
  (Given<Operation<P, M>, 'query'> extends infer G
    ? [G] extends [undefined]
      ? { query?: undefined }
      : { query?: Filters<G> }
    : never) &
  (Given<Operation<P, M>, 'header'> extends { 'idempotency-key'?: string }
    ? {
        /** Default: a random one. */
        idempotencyKey?: string | undefined;
      }
    : { idempotencyKey?: undefined });

/** The payload of a route's successful response. */
export type Data<P extends keyof paths, M extends Method> =
  ResponseOf<Operation<P, M>> extends { data: infer D } ? D : never;

/** The routes whose response is a page of a list. */
export type ListPath = {
  [P in PathOf<'get'>]: Given<Operation<P, 'get'>, 'query'> extends { cursor?: string } ? P : never;
}[PathOf<'get'>];

export type Item<P extends ListPath> = Data<P, 'get'> extends readonly (infer I)[] ? I : never;

/** Whether a call can be made without arguments. */
export type Rest<A> = Partial<A> extends A ? [given?: A] : [given: A];

export interface Client {
  get<P extends PathOf<'get'>>(
    path: P,
    ...rest: Rest<Arguments<P, 'get'>>
  ): Promise<Data<P, 'get'>>;
  post<P extends PathOf<'post'>>(
    path: P,
    ...rest: Rest<Arguments<P, 'post'>>
  ): Promise<Data<P, 'post'>>;
  patch<P extends PathOf<'patch'>>(
    path: P,
    ...rest: Rest<Arguments<P, 'patch'>>
  ): Promise<Data<P, 'patch'>>;
  delete<P extends PathOf<'delete'>>(
    path: P,
    ...rest: Rest<Arguments<P, 'delete'>>
  ): Promise<Data<P, 'delete'>>;
  /**
   * Every row of a list, newest first; a page is requested when the previous one is consumed.
   * `query.limit` is the size of a page.
   */
  list<P extends ListPath>(
    path: P,
    ...rest: Rest<Arguments<P, 'get'>>
  ): AsyncGenerator<Item<P>, void, undefined>;
  /** A list page by page. */
  pages<P extends ListPath>(
    path: P,
    ...rest: Rest<Arguments<P, 'get'>>
  ): AsyncGenerator<Item<P>[], void, undefined>;
  /** The CSV export as it comes in (Pro). */
  exportTransactions(
    given: Arguments<'/merchant/apps/{appId}/transactions/export', 'get'>,
  ): Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
}
