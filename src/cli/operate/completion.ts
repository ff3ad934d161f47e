// `billing completion`: prints a completion script for a shell. The script is generated from the
// tree of commands, so it has every command and flag of this release.
import type { Command, Option } from 'commander';
import { type SetExitCode, oneOf } from '../arguments.ts';
import { print } from '../terminal/print.ts';

/**
 * Adds the argument and the action. The script needs the complete tree of commands, so cli.ts loads
 * all commands before it runs this one.
 */
export function addCompletion(command: Command, setExitCode: SetExitCode): void {
  command
    .argument('<shell>', 'bash, zsh or fish', oneOf('bash', 'zsh', 'fish'))
    .addHelpText(
      'after',
      `
To load it in every shell:
  bash   billing completion bash > ~/.local/share/bash-completion/completions/billing
  zsh    billing completion zsh > a file _billing in a directory of $fpath
  fish   billing completion fish > ~/.config/fish/completions/billing.fish`,
    )
    .action((shell: keyof typeof scripts) => {
      const root = command.parent ?? command;
      print(scripts[shell](nodesOf(root, root.name())));
      setExitCode(0);
    });
}

/** A command of the tree. `path` is its full name, such as "billing keys list". */
interface Node {
  path: string;
  commands: { name: string; description: string }[];
  flags: { name: string; description: string; takesValue: boolean }[];
}

function nodesOf(command: Command, path: string): Node[] {
  const help = command.createHelp();
  const node: Node = {
    path,
    commands: help
      .visibleCommands(command)
      .map((each) => ({ name: each.name(), description: each.description() })),
    flags: help.visibleOptions(command).flatMap((option) => flagOf(option)),
  };
  return [node, ...command.commands.flatMap((each) => nodesOf(each, `${path} ${each.name()}`))];
}

function flagOf({ long, description, required, optional }: Option): Node['flags'] {
  if (long === undefined) return [];
  return [{ name: long, description, takesValue: required || optional }];
}

const words = ({ commands, flags }: Node) =>
  [...commands, ...flags].map(({ name }) => name).join(' ');
const valued = ({ flags }: Node) =>
  flags.flatMap(({ name, takesValue }) => (takesValue ? [name] : [])).join(' ');
/**
 * Quotes a text for bash, zsh and fish. A backslash becomes a slash, because in single quotes fish
 * treats a backslash as an escape, but bash and zsh do not.
 */
const quoted = (text: string) => `'${text.replaceAll("'", '’').replaceAll('\\', '/')}'`;
/** Joins the paths of all commands below the root to one pattern for `case`. */
const paths = (nodes: readonly Node[]) =>
  nodes
    .slice(1)
    .map(({ path }) => quoted(path))
    .join(' | ');

/**
 * Returns the completion script for bash. After a flag that takes a value, the script offers file
 * names, because most values are files.
 */
function bash(nodes: readonly Node[]): string {
  return `# Completion of billing for bash, made by "billing completion bash".
_billing() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]}
  local path=billing words= valued= at
  for ((at = 1; at < COMP_CWORD; at += 1)); do
    case "$path \${COMP_WORDS[at]}" in
      ${paths(nodes)}) path="$path \${COMP_WORDS[at]}" ;;
    esac
  done
  case "$path" in
${nodes.map((node) => `    ${quoted(node.path)}) words=${quoted(words(node))} valued=${quoted(valued(node))} ;;`).join('\n')}
  esac
  COMPREPLY=()
  case " $valued " in
    *" $previous "*) return ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _billing billing`;
}

function zsh(nodes: readonly Node[]): string {
  // _describe reads "name:description", so each colon in the description is replaced.
  const described = ({ name, description }: { name: string; description: string }) =>
    quoted(`${name}:${description}`.replace(/(?<=:.*):/g, ' -'));
  return `#compdef billing
# Completion of billing for zsh, made by "billing completion zsh".
_billing() {
  local path_=billing valued= word
  local -a choices
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$path_ $word" in
      ${paths(nodes)}) path_="$path_ $word" ;;
    esac
  done
  case "$path_" in
${nodes.map((node) => `    ${quoted(node.path)})\n      valued=${quoted(valued(node))}\n      choices=(${[...node.commands, ...node.flags].map(described).join(' ')}) ;;`).join('\n')}
  esac
  case " $valued " in
    *" $words[CURRENT-1] "*) _files; return ;;
  esac
  _describe 'billing' choices || _files
}
if [ "$funcstack[1]" = _billing ]; then _billing "$@"; else compdef _billing billing; fi`;
}

function fish(nodes: readonly Node[]): string {
  const lines = nodes.flatMap((node) => {
    const at = `complete -c billing -n ${quoted(`test "$(__billing_path)" = "${node.path}"`)}`;
    return [
      ...node.commands.map(
        ({ name, description }) => `${at} -f -a ${quoted(name)} -d ${quoted(description)}`,
      ),
      ...node.flags.map(
        ({ name, description, takesValue }) =>
          `${at} ${takesValue ? '-r ' : ''}-l ${quoted(name.slice(2))} -d ${quoted(description)}`,
      ),
    ];
  });
  return `# Completion of billing for fish, made by "billing completion fish".
function __billing_path
  set -l path billing
  for word in (commandline -opc)[2..]
    switch "$path $word"
      case ${nodes
        .slice(1)
        .map(({ path }) => quoted(path))
        .join(' ')}
        set path "$path $word"
    end
  end
  echo $path
end
${lines.join('\n')}`;
}

const scripts = { bash, zsh, fish };
