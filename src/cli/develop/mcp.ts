// `billing mcp`: a server of the Model Context Protocol on stdin and stdout. Each call of a tool is
// one request to the API with the caller's API key.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Command } from 'commander';
import { interruptible } from '../../daemon/run.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { Finish } from '../arguments.ts';
import { note } from '../terminal/print.ts';
import { type ApiClient, ApiRefusal, type DeveloperFlags, openApi, withKey } from './api-client.ts';
import { type ApiTool, type OpenApiDocument, requestOf, toolsOf } from './mcp-tools.ts';

interface McpFlags extends DeveloperFlags {
  write?: boolean;
}

export function addMcp(command: Command, finish: Finish): void {
  withKey(command)
    .option('--write', 'also offer the operations that change something')
    .action(async (flags: McpFlags) => finish(await mcp(flags)));
}

/** Time limit of a request. A request of followEvents may wait 15 s for events. */
const TIMEOUT_MS = 30_000;
const INSTRUCTIONS =
  'Recurring USDC payments on Solana: the API of one merchant. Amounts are strings of USDC base units (6 decimals), times ISO 8601 in UTC. listApps has the appId that most tools need. Lists are newest first; nextCursor is the cursor of the next page.';

/** Serves until the client closes stdin and all its calls are answered. Returns the exit code. */
function mcp(flags: McpFlags): Promise<number> {
  return interruptible(false, async (signal) => {
    const [{ McpServer }, { StdioServerTransport }, types] = await Promise.all([
      import('@modelcontextprotocol/sdk/server/mcp.js'),
      import('@modelcontextprotocol/sdk/server/stdio.js'),
      import('@modelcontextprotocol/sdk/types.js'),
    ]);
    const client = await openApi(flags, signal);
    try {
      const document = (await client.document(signal)) as OpenApiDocument;
      const tools = toolsOf(document, flags.write === true);
      const { server } = new McpServer(
        { name: 'billing', version: document.info.version },
        { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
      );
      server.setRequestHandler(types.ListToolsRequestSchema, () => ({
        tools: [...tools.values()].map(({ tool }) => tool),
      }));
      const running = new Set<Promise<CallToolResult>>();
      server.setRequestHandler(types.CallToolRequestSchema, ({ params }, { signal: until }) => {
        const tool = tools.get(params.name);
        if (tool === undefined)
          return failed(
            `There is no tool ${params.name}${flags.write === true ? '' : '; operations that change something need "billing mcp --write"'}.`,
          );
        const call = callTool(client, tool, params.arguments ?? {}, until);
        running.add(call);
        return call.finally(() => running.delete(call));
      });
      const ended = new Promise<void>((resolve) => {
        process.stdin.once('end', resolve);
        server.onclose = resolve;
      });
      await server.connect(new StdioServerTransport());
      note(`billing: ${tools.size} tools of ${client.url} on stdin and stdout`);
      await ended;
      // The last lines of stdin have called their handlers by the next turn.
      await nextTurn();
      await Promise.allSettled(running);
      return 0;
    } finally {
      await client.close();
    }
  });
}

async function callTool(
  client: ApiClient,
  tool: ApiTool,
  given: Record<string, unknown>,
  signal: AbortSignal,
): Promise<CallToolResult> {
  try {
    const { path, body, headers } = requestOf(tool, given);
    const response = await client.call<unknown>(tool.method, path, {
      body,
      headers,
      signal,
      timeoutMs: TIMEOUT_MS,
    });
    const nextCursor = response.headers['x-next-cursor'];
    const result = { data: response.data, ...(nextCursor !== undefined && { nextCursor }) };
    return { content: [{ type: 'text', text: JSON.stringify(result) }] };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return failed(error instanceof ApiRefusal ? refusalInWords(error) : messageOf(error));
  }
}

function refusalInWords({ code, status, message, details, retryAfter }: ApiRefusal): string {
  const wrong = details.map(({ path, message: fault }) => `\n- ${path} ${fault}`).join('');
  const wait = retryAfter === undefined ? '' : ` Try again in ${retryAfter} s.`;
  return `${code ?? `HTTP ${status}`}: ${message}${wait}${wrong}`;
}

const failed = (text: string): CallToolResult => ({
  isError: true,
  content: [{ type: 'text', text }],
});
