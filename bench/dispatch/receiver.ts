// A light receiver in its own process. It responds with 200 and counts requests. Hung ports never
// respond. Arguments: number of responding ports, number of hung ports, delay in ms of all
// responding ports except the first. Sends {open, hung} (the ports) once it listens.
// Messages to the receiver:
// - 'reset': forget all requests
// - {after: n}: report the arrival of request number n
// - 'count': send the number of requests by port
// - 'time': record arrival times from now on; 'times': send them as [id of the body, Unix ms]
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

const [open = '1', hung = '0', slowMs = '0'] = process.argv.slice(2);
const answer = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
let received = 0;
let reportAt = Infinity;
let perPort = new Map<number, number>();
let times: [string, number][] | undefined;

const arrived = (port: number, body: () => string) => {
  received += 1;
  perPort.set(port, (perPort.get(port) ?? 0) + 1);
  if (times !== undefined)
    times.push([
      /"id":"([^"]*)"/.exec(body())?.[1] ?? '',
      performance.timeOrigin + performance.now(),
    ]);
  if (received === reportAt)
    process.send?.({ reported: performance.timeOrigin + performance.now() });
};

/** Responds to each request after `afterMs` milliseconds. Null means never. */
function serve(socket: Socket, afterMs: number | null): void {
  const port = socket.localPort ?? 0;
  let pending = Buffer.alloc(0);
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    for (;;) {
      const end = pending.indexOf('\r\n\r\n');
      if (end < 0) return;
      // All contenders write this header in lower case.
      const at = pending.indexOf('content-length: ') + 'content-length: '.length;
      const length = Number(pending.toString('latin1', at, pending.indexOf('\r', at)));
      const whole = end + 4 + length;
      if (pending.length < whole) return;
      const request = pending;
      arrived(port, () => request.toString('latin1', end + 4, whole));
      pending = pending.subarray(whole);
      if (afterMs === 0) socket.write(answer);
      else if (afterMs !== null) setTimeout(() => socket.write(answer), afterMs);
    }
  });
}

async function listen(count: number, afterMs: (index: number) => number | null): Promise<number[]> {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const server = createServer((socket) => serve(socket, afterMs(index))).listen(
        0,
        '127.0.0.1',
        4096,
      );
      await once(server, 'listening');
      return (server.address() as AddressInfo).port;
    }),
  );
}

process.on('message', (message: 'reset' | 'times' | 'count' | 'time' | { after: number }) => {
  if (message === 'reset') {
    received = 0;
    reportAt = Infinity;
    perPort = new Map();
    times = undefined;
  } else if (message === 'time') times = [];
  else if (message === 'times') process.send?.({ times: times ?? [] });
  else if (message === 'count') process.send?.({ received, perPort: [...perPort] });
  else if (received >= message.after)
    process.send?.({ reported: performance.timeOrigin + performance.now() });
  else reportAt = message.after;
});
process.send?.({
  open: await listen(Number(open), (index) => (index === 0 ? 0 : Number(slowMs))),
  hung: await listen(Number(hung), () => null),
});
