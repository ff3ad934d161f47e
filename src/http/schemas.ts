// When a route's schemas are compiled: by the first request that needs them. Fastify would compile those of all routes before it listens, which is half of a
// start's time.
import validators from '@fastify/ajv-compiler';
import serializers from '@fastify/fast-json-stringify-compiler';
import type { FastifySchema, FastifySchemaCompiler, FastifySerializerCompiler } from 'fastify';
import { formats } from './fields.ts';

type Validate = ReturnType<FastifySchemaCompiler<FastifySchema>>;

/** Fastify's validators (Ajv): they convert and remove nothing, report every error and know our formats. */
export function validatorCompiler(): FastifySchemaCompiler<FastifySchema> {
  const compile = validators()(
    {},
    {
      customOptions: { coerceTypes: false, removeAdditional: false, allErrors: true },
      onCreate: (ajv) => {
        for (const [name, { fits }] of Object.entries(formats)) ajv.addFormat(name, fits);
      },
    },
  ) as unknown as FastifySchemaCompiler<FastifySchema>;
  return (route) => {
    let compiled: Validate | undefined;
    const validate: Validate = (data) => {
      compiled ??= compile(route);
      const result = compiled(data);
      validate.errors = compiled.errors ?? null;
      return result;
    };
    return validate;
  };
}

/** Fastify's serializers (fast-json-stringify). */
export function serializerCompiler(): FastifySerializerCompiler<FastifySchema> {
  const compile = serializers()({}, {}) as FastifySerializerCompiler<FastifySchema>;
  return (route) => {
    let compiled: ReturnType<typeof compile> | undefined;
    return (data) => (compiled ??= compile(route))(data);
  };
}
