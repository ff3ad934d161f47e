// A lint rule: no `*` over a table in a select list or in `returning`. A migration that adds a
// column would change the statement's result, and each prepared statement of a running daemon would
// fail once ("cached plan must not change result type"). The `*` of a subselect, of a CTE and of
// named columns (recordset) stays.

const message = 'A `*` over a table: name the columns, so that an added column changes no result.';

const TOKEN = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\$\{\}|\w+|\S/g;
const ENDS = new Set([
  ...['where', 'group', 'having', 'order', 'limit', 'union', 'for', 'window', 'returning', ')'],
]);
const NOT_NAMES = new Set([...ENDS, 'on', 'as', 'join', 'left', 'cross', 'set', 'using', 'values']);

/** The words and signs of a statement. Each inserted value or fragment is `${}`. */
function tokensOf({ quasis }) {
  const text = quasis.map(({ value }) => value.cooked ?? '').join('${}');
  return (text.match(TOKEN) ?? [])
    .filter((token) => !token.startsWith('--'))
    .map((token) => token.toLowerCase());
}

const isName = (token) => token !== undefined && /^[a-z_]\w*$/.test(token) && !NOT_NAMES.has(token);

/** Names that stand for something other than a table: CTEs, subselects, functions. */
function derivedNames(tokens) {
  const names = new Set();
  tokens.forEach((token, at) => {
    // `) as name`, `) name`
    if (token === ')') {
      const name = tokens[at + 1] === 'as' ? tokens[at + 2] : tokens[at + 1];
      if (isName(name)) names.add(name);
    }
    // `name as (`, `name (columns) as materialized (`
    if (token !== 'as' || !/^(\(|materialized)$/.test(tokens[at + 1] ?? '')) return;
    let before = at - 1;
    if (tokens[before] === ')') before = tokens.lastIndexOf('(', before) - 1;
    if (isName(tokens[before])) names.add(tokens[before]);
  });
  // `from name alias`
  tokens.forEach((token, at) => {
    if (!names.has(token) || !/^(from|join|,)$/.test(tokens[at - 1] ?? '')) return;
    const alias = tokens[at + 1] === 'as' ? tokens[at + 2] : tokens[at + 1];
    if (isName(alias)) names.add(alias);
  });
  return names;
}

/** Whether the `*` at this place stands for columns: it is no product, nor in `count(*)`. */
const isOfColumns = (tokens, at) =>
  /^(\.|,|select|returning|distinct|all)$/.test(tokens[at - 1] ?? '');

/** Whether a table is among the sources of the select whose unqualified `*` is at this place. */
function readsTable(tokens, star, derived) {
  let depth = 0;
  let isSource = false;
  let hasFrom = false;
  for (let at = star + 1; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (depth === 0 && ENDS.has(token)) break;
    if (token === '(') {
      depth += 1;
      isSource = false;
    } else if (token === ')') depth -= 1;
    else if (depth > 0 || token === 'lateral' || token === 'only') continue;
    else if (token === 'from' || token === 'join' || (token === ',' && hasFrom)) {
      hasFrom = true;
      isSource = true;
    } else if (isSource) {
      isSource = false;
      if (tokens[at + 1] !== '(' && !derived.has(token)) return true;
    }
  }
  return false;
}

/** Counts the stars over tables in a statement. */
function starsIn(tokens) {
  const derived = derivedNames(tokens);
  return tokens.filter((token, at) => {
    if (token !== '*' || !isOfColumns(tokens, at)) return false;
    if (tokens[at - 1] === '.') return !derived.has(tokens[at - 2]);
    return tokens[at - 1] === 'returning' || readsTable(tokens, at, derived);
  }).length;
}

export default {
  meta: { type: 'problem', schema: [], messages: { star: message } },
  create(context) {
    return {
      TemplateLiteral(node) {
        const tokens = tokensOf(node);
        if (!tokens.some((token) => token === 'select' || token === 'returning')) return;
        for (let count = starsIn(tokens); count > 0; count -= 1)
          context.report({ node, messageId: 'star' });
      },
    };
  },
};
