// Schemas are compiled by the first request that needs them, so that no start would find one that
// cannot be compiled: this does.
import validators from '@fastify/ajv-compiler';
import type { FastifySchema, RouteOptions } from 'fastify';
import t from 'tap';
import { buildApp } from '../../../src/http/app.ts';
import { serializerCompiler, validatorCompiler } from '../../../src/http/shapes/schemas.ts';
import { testApi } from '../../fixtures/http.ts';

void t.test('every schema of every route can be compiled', async (t) => {
  const app = buildApp((await testApi(t)).deps);
  t.teardown(() => app.close());
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', (route) => {
    routes.push(route);
  });
  await app.ready();
  const [validate, serialize] = [validatorCompiler(), serializerCompiler()];
  let [inputs, answers] = [0, 0];
  for (const { url, schema = {} } of routes) {
    const { response = {}, ...input } = schema;
    for (const httpPart of ['body', 'querystring', 'params', 'headers'] as const) {
      const part = input[httpPart] as FastifySchema | undefined;
      if (part === undefined) continue;
      inputs += 1;
      t.doesNotThrow(
        () => validate({ schema: part, method: 'GET', url, httpPart })({}),
        `${url}: ${httpPart}`,
      );
    }
    for (const [httpStatus, answer] of Object.entries(
      response as Record<string, { content?: Record<string, { schema: object }> }>,
    )) {
      for (const part of answer.content === undefined
        ? [answer]
        : Object.values(answer.content).map((content) => content.schema)) {
        answers += 1;
        try {
          serialize({ schema: part, method: 'GET', url, httpStatus })({});
        } catch (error) {
          t.match(error, { message: /is required!$/ }, `${url}: ${httpStatus}`);
        }
      }
    }
  }
  t.ok(inputs > 50 && answers > 200, `${inputs} of input and ${answers} of answers`);
  const unknown = { type: 'string', format: 'none of ours' } as FastifySchema;
  t.throws(() => validate({ schema: unknown, method: 'GET', url: '/' })(''), /unknown format/);
});

void t.test(
  'a lazily compiled validator gives the same results as one compiled immediately, for consecutive inputs',
  (t) => {
    const schema = {
      type: 'object',
      required: ['a'],
      properties: { a: { type: 'integer' }, b: { default: 7 } },
      additionalProperties: false,
    };
    const late = validatorCompiler()({ schema: schema as FastifySchema, method: 'GET', url: '/' });
    const options = {
      coerceTypes: false,
      removeAdditional: false,
      useDefaults: true,
      allErrors: true,
    } as const;
    const atOnce = validators()({}, { customOptions: options })({ schema });
    for (const input of [{ a: 1 }, { a: 1.5, c: 2 }, {}, { a: 2 }, null, [], 'text']) {
      const [one, other] = [structuredClone(input), structuredClone(input)];
      t.equal(late(one), atOnce(other));
      t.same(late.errors, atOnce.errors);
      t.same(one, other, 'defaults are filled in');
    }
    t.end();
  },
);
