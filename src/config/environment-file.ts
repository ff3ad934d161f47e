// Reads and writes an environment file by the rules of systemd's EnvironmentFile, so that
// billing.env means the same to the units and to the commands. Source: systemd.exec(5),
// EnvironmentFile=, and parse_env_file_internal() in systemd's src/basic/env-file.c.
//
//   a line is NAME=value; blank lines and lines that begin with # or ; are skipped
//   spaces around name and value are dropped; # inside a value is part of it
//   outside quotes a backslash keeps the next character, and continues the line at its end
//   '...' keeps everything; "..." too, but \" \\ \` \$ are the characters behind the backslash

type State = 'line' | 'name' | 'before value' | 'value' | 'single' | 'double' | 'comment';

const isSpace = (char: string) => ' \t\r\n'.includes(char);
const isNewline = (char: string) => char === '\n' || char === '\r';

/** Names that systemd takes; it drops the lines of all others. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Collects the characters of a name or a value, without the unquoted spaces at its end. */
class Text {
  #text = '';
  #end = 0;

  add(char: string, isKept = !isSpace(char)): void {
    this.#text += char;
    if (isKept) this.#end = this.#text.length;
  }

  /** Keeps the spaces that were added before. */
  keep(): void {
    this.#end = this.#text.length;
  }

  take(): string {
    const taken = this.#text.slice(0, this.#end);
    this.#text = '';
    this.#end = 0;
    return taken;
  }
}

/**
 * Parses the text of an environment file. Throws an Error when it begins with a byte order mark,
 * with which systemd would not know the first name.
 */
export function parseEnvironmentFile(text: string): Record<string, string> {
  if (text.startsWith('\uFEFF'))
    throw new Error('it begins with a byte order mark: save it as UTF-8 without one');
  const found: Record<string, string> = {};
  const name = new Text();
  const value = new Text();
  let state: State = 'line';
  const end = () => {
    const [key, given] = [name.take(), value.take()];
    if (state !== 'name' && NAME.test(key)) found[key] = given;
    state = 'line';
  };
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at);
    if (state === 'line') {
      if (char === '#' || char === ';') state = 'comment';
      else if (!isSpace(char)) {
        state = 'name';
        name.add(char);
      }
    } else if (state === 'comment') {
      if (isNewline(char)) state = 'line';
    } else if (state === 'name') {
      if (isNewline(char)) end();
      else if (char === '=') state = 'before value';
      else name.add(char);
    } else if (state === 'single') {
      if (char === "'") state = 'before value';
      else value.add(char, true);
    } else if (state === 'double') {
      if (char === '"') state = 'before value';
      else if (char === '\\') {
        at += 1;
        const next = text.charAt(at);
        if (next !== '' && next !== '\n')
          value.add('"\\`$'.includes(next) ? next : `\\${next}`, true);
      } else value.add(char, true);
    } else if (isNewline(char)) end();
    else if (char === '\\') {
      state = 'value';
      at += 1;
      const next = text.charAt(at);
      value.keep();
      if (next !== '' && !isNewline(next)) value.add(next, true);
    } else if (state === 'before value' && (char === "'" || char === '"'))
      state = char === "'" ? 'single' : 'double';
    else if (state === 'value' || !isSpace(char)) {
      state = 'value';
      value.add(char);
    }
  }
  if (state !== 'line' && state !== 'comment') end();
  return found;
}

/**
 * Writes variables as an environment file. A shell that reads the file with `.`, systemd and
 * parseEnvironmentFile get the same values. Throws an Error for a name that is not a variable's,
 * and for a value with a zero byte.
 */
export function environmentText(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => {
      if (!NAME.test(name) || value.includes('\0'))
        throw new Error(`no environment can have the variable ${JSON.stringify(name)}`);
      return `${name}=${quoted(value)}\n`;
    })
    .join('');
}

// Nothing is special in single quotes. In double quotes the shell and systemd agree on a backslash
// before these four characters; a single quote needs them.
function quoted(value: string): string {
  return value.includes("'") ? `"${value.replace(/["\\`$]/g, '\\$&')}"` : `'${value}'`;
}
