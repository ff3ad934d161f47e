// Types of the routes in the OpenAPI document: parameters, request body and the data of the
// response.
import type { paths } from './openapi.ts';

export type Method = 'get' | 'post' | 'patch' | 'delete';

type Operation<P extends keyof paths, M extends Method> =
  paths[P] extends Record<M, infer O> ? O : undefined;

/** The paths of all routes with the method M. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: Operation<P, M> extends { responses: object } ? P : never;
}[keyof paths];

type Given<O, K extends 'path' | 'query' | 'header'> = O extends { parameters: infer A }
  ? K extends keyof A
    ? [NonNullable<A[K]>] extends [never]
      ? undefined
      : NonNullable<A[K]>
    : undefined
  : undefined;
type BodyOf<O> = O extends { requestBody: { content: { 'application/json': infer B } } }
  ? { body: B }
  : O extends { requestBody: { content: { 'image/png': unknown } } }
    ? { body: Blob }
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

/** Options that every call has, whatever its route. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  /**
   * Id for this request. The service writes the id to its logs, and returns it as `requestId` of an
   * error.
   */
  requestId?: string | undefined;
  /**
   * Called with the headers of the successful response, such as RateLimit-Remaining and
   * X-Next-Cursor.
   */
  onHeaders?: ((headers: Headers) => void) | undefined;
}

/** The query parameters of a route. A parameter that takes a list also accepts a single value. */
type Filters<Q> = {
  [K in keyof Q]: Q[K] extends readonly (infer V)[] | undefined ? Q[K] | V : Q[K];
};

/**
 * The arguments of a call. Only the parameters (`path`, `query`) and the `body` that the route
 * defines are allowed.
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
        /**
         * Idempotency key: the service carries out requests with the same key only once. Default: a
         * random key.
         */
        idempotencyKey?: string | undefined;
      }
    : { idempotencyKey?: undefined });

/** The `data` of a route's successful response. */
export type Data<P extends keyof paths, M extends Method> =
  ResponseOf<Operation<P, M>> extends { data: infer D } ? D : never;

/** The content types of responses that are files. */
interface FileContent {
  'text/csv'?: string;
  'text/html'?: string;
}

/** The paths of all routes that return a file: an export, a statement, a page to print. */
export type FilePath = {
  [P in PathOf<'get'>]: Operation<P, 'get'> extends { responses: { 200: { content: infer C } } }
    ? keyof C extends keyof FileContent
      ? P
      : never
    : never;
}[PathOf<'get'>];

/** The paths of all routes that return a list in pages. */
export type ListPath = {
  [P in PathOf<'get'>]: Given<Operation<P, 'get'>, 'query'> extends { cursor?: string } ? P : never;
}[PathOf<'get'>];

export type Item<P extends ListPath> = Data<P, 'get'> extends readonly (infer I)[] ? I : never;

/**
 * The argument list of a call. The argument `given` is optional if all of its fields are optional.
 */
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
   * Yields every item of a list, newest first. The next page is requested when all items of the
   * current page were consumed. `query.limit` is the page size.
   */
  list<P extends ListPath>(
    path: P,
    ...rest: Rest<Arguments<P, 'get'>>
  ): AsyncGenerator<Item<P>, void, undefined>;
  /** Yields the pages of a list, each as an array of items. */
  pages<P extends ListPath>(
    path: P,
    ...rest: Rest<Arguments<P, 'get'>>
  ): AsyncGenerator<Item<P>[], void, undefined>;
  /**
   * Returns a file as a stream: the CSV export of an app's transactions (Pro tier), or a statement
   * as CSV or as a page to print.
   */
  file<P extends FilePath>(
    path: P,
    ...rest: Rest<Arguments<P, 'get'>>
  ): Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
}
