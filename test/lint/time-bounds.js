// A lint rule: no test may depend on the speed of its machine. It finds upper bounds on elapsed
// time, patience under a minute, and time limits of single tests. A lower bound ("waited at least a
// second") is fine; speed is a figure of the benchmarks.

/** Milliseconds. */
const LEAST_PATIENCE = 60_000;
const FILE_TIMEOUT = 600_000;
const CLOCKS = new Set(['performance.now', 'Date.now', 'process.hrtime.bigint']);
const WAITING = new Set(['until', 'quiet', 'AbortSignal.timeout']);

const messages = {
  elapsed:
    'An upper bound on elapsed time: keep what it proves as a count or an order, or as a figure of the benchmark.',
  patience:
    'A patience under a minute: a slower machine needs longer. The time limit of the file ends what hangs.',
  limit: 'The time limit of the file (10 minutes) ends what hangs: leave this one out.',
};

/** `a.b.c` of a member expression or an identifier; '' for others. */
function nameOf(node) {
  if (node.type === 'Identifier') return node.name;
  if (node.type !== 'MemberExpression' || node.computed) return '';
  const object = nameOf(node.object);
  return `${object === '' ? '?' : object}.${node.property.name}`;
}

const lastPart = (name) => name.slice(name.lastIndexOf('.') + 1);

/**
 * What an expression says of the time: 'clock' (a point in time), 'elapsed' (a duration that was
 * measured), or undefined.
 */
function createTimes(sourceCode) {
  const known = new Map();

  /** The definition of the variable that an identifier names. */
  function definitionOf(identifier) {
    for (let scope = sourceCode.getScope(identifier); scope !== null; scope = scope.upper) {
      const variable = scope.set.get(identifier.name);
      if (variable !== undefined) return variable;
    }
    return undefined;
  }

  function ofVariable(identifier) {
    const variable = definitionOf(identifier);
    if (variable === undefined) return undefined;
    if (!known.has(variable)) {
      known.set(variable, undefined);
      known.set(variable, ofDefinition(variable));
    }
    return known.get(variable);
  }

  function ofDefinition({ defs, references }) {
    for (const { node } of defs) {
      if (node.type === 'VariableDeclarator' && node.id.type === 'Identifier' && node.init) {
        const found = ofFunction(node.init) ?? timeOf(node.init);
        if (found !== undefined) return found;
      }
      if (node.type === 'FunctionDeclaration') return ofFunction(node);
    }
    for (const { identifier, writeExpr } of references) {
      const { parent } = identifier;
      if (writeExpr && timeOf(writeExpr) === 'elapsed') return 'elapsed';
      // times.push(performance.now() - began)
      const isPush = parent.type === 'MemberExpression' && parent.property.name === 'push';
      if (
        isPush &&
        parent.parent.type === 'CallExpression' &&
        parent.parent.arguments.some(isElapsed)
      )
        return 'elapsed';
    }
    return undefined;
  }

  /** Of what a function returns. */
  function ofFunction(node) {
    if (!/Function/.test(node.type)) return undefined;
    if (node.body.type !== 'BlockStatement') return timeOf(node.body);
    return node.body.body
      .filter(({ type }) => type === 'ReturnStatement')
      .map(({ argument }) => argument && timeOf(argument))
      .find((found) => found !== undefined);
  }

  function ofBinary({ operator, left, right }) {
    const [one, other] = [timeOf(left), timeOf(right)];
    if (operator === '-' && one !== undefined && other === 'clock') return 'elapsed';
    if (operator === '-' && other === 'clock') return 'elapsed';
    if (operator === '-' && one === 'clock') return right.type === 'Literal' ? 'clock' : 'elapsed';
    if (one === 'elapsed' || other === 'elapsed') return 'elapsed';
    // Divided, it is a Unix time in seconds, which a protocol compares with a tolerance of minutes.
    return operator === '+' ? (one ?? other) : undefined;
  }

  function timeOf(node) {
    switch (node.type) {
      case 'Identifier':
        return ofVariable(node);
      case 'AwaitExpression':
      case 'SpreadElement':
      case 'UnaryExpression':
        return timeOf(node.argument);
      case 'TSNonNullExpression':
      case 'TSAsExpression':
        return timeOf(node.expression);
      case 'BinaryExpression':
        return ofBinary(node);
      case 'LogicalExpression':
        return timeOf(node.left) ?? timeOf(node.right);
      case 'MemberExpression':
        return timeOf(node.object) === 'elapsed' ? 'elapsed' : undefined;
      case 'CallExpression': {
        if (CLOCKS.has(nameOf(node.callee))) return 'clock';
        if (node.callee.type === 'Identifier' && ofVariable(node.callee) !== undefined)
          return ofVariable(node.callee);
        if (node.callee.type === 'MemberExpression' && timeOf(node.callee.object) === 'elapsed')
          return 'elapsed';
        return node.arguments.some(isElapsed) ? 'elapsed' : undefined;
      }
      default:
        return undefined;
    }
  }

  const isElapsed = (node) => (ofFunction(node) ?? timeOf(node)) === 'elapsed';
  return { timeOf, isElapsed };
}

export default {
  meta: { type: 'problem', schema: [], messages },
  create(context) {
    const { timeOf } = createTimes(context.sourceCode);
    return {
      BinaryExpression(node) {
        if (!/^[<>]=?$/.test(node.operator)) return;
        const isLess = node.operator.startsWith('<');
        const [low, high] = isLess ? [node.left, node.right] : [node.right, node.left];
        const [least, most] = [timeOf(low), timeOf(high)];
        if (least === 'elapsed' || (least === 'clock' && most === 'clock'))
          context.report({ node, messageId: 'elapsed' });
      },
      CallExpression(node) {
        const name = nameOf(node.callee);
        const last = node.arguments.at(-1);
        const isWait = WAITING.has(name) || WAITING.has(lastPart(name));
        if (isWait && typeof last?.value === 'number' && last.value < LEAST_PATIENCE)
          context.report({ node: last, messageId: 'patience' });
        if (lastPart(name) !== 'test') return;
        for (const property of node.arguments.flatMap((one) => one.properties ?? []))
          if (property.key?.name === 'timeout' && property.value.value < FILE_TIMEOUT)
            context.report({ node: property, messageId: 'limit' });
      },
    };
  },
};
