// Converts the operations of the API's OpenAPI document to tools of the Model Context Protocol.
import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import type { Method } from '../../client/routes.ts';
import { OperatorError } from '../../errors.ts';

/** The parts of an OpenAPI document that this file uses. */
export interface OpenApiDocument {
  info: { version: string };
  paths: Record<string, Partial<Record<string, Operation>>>;
  components: { schemas: Record<string, Json> };
}

interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  /**
   * Undefined if the document's default applies, which accepts an API key. Set if the operation
   * needs a wallet's token or no credentials.
   */
  security?: unknown;
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Record<string, { schema: Json }> };
  responses: Record<string, { content?: Record<string, unknown> }>;
}

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: Json;
}

type Json = Readonly<Record<string, unknown>>;

/** A tool, and the route that it calls. */
export interface ApiTool {
  tool: Tool;
  method: Method;
  path: string;
  parameters: readonly Parameter[];
}

/** The arguments of the client's call. */
interface ApiRequest {
  path: Record<string, string>;
  query: Record<string, string>;
  body: unknown;
  idempotencyKey: string | undefined;
}

const JSON_TYPE = 'application/json';
const IDEMPOTENCY_KEY = 'idempotency-key';
/**
 * The values of `format` that tools may use. Clients may refuse a schema with a format that JSON
 * Schema does not define.
 */
const STANDARD_FORMATS = ['date-time', 'email', 'ipv4', 'ipv6', 'uri', 'uuid'];

/**
 * Returns one tool for each operation that returns JSON and is open to API keys. Without `write`,
 * returns only the operations that change nothing.
 */
export function toolsOf(document: OpenApiDocument, write: boolean): Map<string, ApiTool> {
  const tools = new Map<string, ApiTool>();
  for (const [path, operations] of Object.entries(document.paths))
    for (const [verb, operation] of Object.entries(operations)) {
      if (operation === undefined || !isOffered(operation) || (verb !== 'get' && !write)) continue;
      const route = { method: verb as Method, path };
      tools.set(operation.operationId, toolOf(document, operation, route));
    }
  return tools;
}

function isOffered({ security, requestBody, responses }: Operation): boolean {
  const answered = Object.entries(responses).filter(([status]) => status.startsWith('2'));
  return (
    security === undefined &&
    (requestBody === undefined || JSON_TYPE in requestBody.content) &&
    answered.every(([, { content = {} }]) => JSON_TYPE in content)
  );
}

function toolOf(
  document: OpenApiDocument,
  { operationId, summary = operationId, description, parameters = [], requestBody }: Operation,
  { method, path }: Pick<ApiTool, 'method' | 'path'>,
): ApiTool {
  const body = requestBody?.content[JSON_TYPE]?.schema;
  const properties = Object.fromEntries([
    ...parameters.map(({ name, description: about, schema }) => [
      name,
      {
        ...(plainSchema(document, schema) as Json),
        ...(about !== undefined && { description: about }),
      },
    ]),
    ...(body === undefined ? [] : [['body', plainSchema(document, body)]]),
  ]) as Record<string, object>;
  const required = [
    ...parameters.flatMap(({ name, required: isRequired }) => (isRequired === true ? name : [])),
    ...(requestBody?.required === true ? ['body'] : []),
  ];
  const tool: Tool = {
    name: operationId,
    title: summary,
    description: [`${summary}.`, description, `${method.toUpperCase()} ${path}`]
      .filter((text) => text !== undefined)
      .join(' '),
    inputSchema: { type: 'object', properties, required, additionalProperties: false },
    annotations: {
      title: summary,
      readOnlyHint: method === 'get',
      destructiveHint: method !== 'get',
      openWorldHint: false,
    },
  };
  return { tool, method, path, parameters };
}

/** Replaces each `$ref` with the schema it refers to, and removes formats that are not standard. */
function plainSchema(document: OpenApiDocument, schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((item: unknown) => plainSchema(document, item));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { $ref, ...fields } = schema as Record<string, unknown>;
  const named =
    typeof $ref === 'string'
      ? document.components.schemas[$ref.split('/').at(-1) ?? '']
      : undefined;
  return Object.fromEntries(
    Object.entries({ ...named, ...fields }).flatMap(([key, value]) =>
      key === 'format' && !STANDARD_FORMATS.includes(String(value))
        ? []
        : [[key, plainSchema(document, value)]],
    ),
  );
}

/**
 * Builds the API request from the arguments of a tool call. Throws an OperatorError for an unknown
 * or a missing argument. The API checks the values.
 */
export function requestOf(
  { tool, parameters }: ApiTool,
  given: Readonly<Record<string, unknown>>,
): ApiRequest {
  const { properties = {}, required = [] } = tool.inputSchema;
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(properties, name));
  const missing = required.filter((name) => (given[name] ?? '') === '');
  if (unknown.length > 0)
    throw new OperatorError(
      `${tool.name} has no argument ${unknown.join(', ')}; it has ${Object.keys(properties).join(', ')}.`,
    );
  if (missing.length > 0) throw new OperatorError(`${tool.name} needs ${missing.join(', ')}.`);
  const textsIn = (place: string) =>
    Object.fromEntries(
      parameters.flatMap(({ name, in: stated }) =>
        stated === place && (given[name] ?? null) !== null ? [[name, textOf(given[name])]] : [],
      ),
    );
  const { [IDEMPOTENCY_KEY]: idempotencyKey } = textsIn('header');
  return { path: textsIn('path'), query: textsIn('query'), body: given.body, idempotencyKey };
}

/** Joins several values with commas, the API's form for a parameter with several values. */
const textOf = (value: unknown): string =>
  Array.isArray(value) ? value.map(textOf).join(',') : String(value);
