/** An error of JSON-RPC 2.0. Codes and messages are those of the validator Agave. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export const parseError = () => new RpcError(-32700, 'Parse error');
export const invalidRequest = (message = 'Invalid request') => new RpcError(-32600, message);
export const methodNotFound = () => new RpcError(-32601, 'Method not found');
export const invalidParams = (message: string) => new RpcError(-32602, message);
/** Creates the error for a valid request that fails because of a fault in the node. */
export const internalError = (message: string) => new RpcError(-32603, message);
