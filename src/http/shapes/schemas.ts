// Compiles the schemas of a route at the first request that needs them. By default, Fastify
// compiles all schemas before it listens, which would take half of the startup time.
import validators from '@fastify/ajv-compiler';
import serializers from '@fastify/fast-json-stringify-compiler';
import type { FastifySchema, FastifySchemaCompiler, FastifySerializerCompiler } from 'fastify';
import { formats } from './fields.ts';

type Validate = ReturnType<FastifySchemaCompiler<FastifySchema>>;

/**
 * Creates Ajv validators that know the custom formats and report every error. They convert no types
 * and remove no fields.
 */
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

/** Creates serializers with fast-json-stringify, Fastify's default. */
export function serializerCompiler(): FastifySerializerCompiler<FastifySchema> {
  const compile = serializers()({}, {}) as FastifySerializerCompiler<FastifySchema>;
  return (route) => {
    let compiled: ReturnType<typeof compile> | undefined;
    return (data) => (compiled ??= compile(route))(data);
  };
}
