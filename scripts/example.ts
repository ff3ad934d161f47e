// Generates examples from schemas: each property's own example, or the simplest valid value.
type Json = Record<string, unknown>;

/** Returns an example value of a schema. `schemas` has the components to which `$ref` refers. */
export function exampleOf(schema: Json, schemas: Readonly<Record<string, Json>>): unknown {
  const { $ref, examples, enum: words, oneOf, anyOf, type, properties, items } = schema;
  if (typeof $ref === 'string')
    return exampleOf(schemas[$ref.split('/').at(-1) ?? ''] ?? {}, schemas);
  if (Array.isArray(examples)) return examples[0] as unknown;
  if ('example' in schema) return schema.example;
  if ('const' in schema) return schema.const;
  if (Array.isArray(words)) return words[0] as unknown;
  const [first] = ((oneOf ?? anyOf) as Json[] | undefined) ?? [];
  if (first !== undefined) return exampleOf(first, schemas);
  if ('default' in schema) return schema.default;
  switch ([type].flat()[0]) {
    case 'object':
      return Object.fromEntries(
        Object.entries((properties ?? {}) as Record<string, Json>).map(([name, property]) => [
          name,
          exampleOf(property, schemas),
        ]),
      );
    case 'array':
      return items === undefined ? [] : [exampleOf(items as Json, schemas)];
    case 'integer':
    case 'number':
      return schema.minimum ?? 1;
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return schema.format === 'date' ? '2026-01-31' : 'text';
  }
}
