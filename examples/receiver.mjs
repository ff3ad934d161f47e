// WEBHOOK_SECRET=whsec_... node receiver.mjs [port]   (else PORT, else 4000)
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const secret = process.env.WEBHOOK_SECRET ?? '';
if (secret === '') stop('WEBHOOK_SECRET is not set: it is the signing secret of the endpoint');
const [port = process.env.PORT ?? '4000'] = process.argv.slice(2);

function stop(message) {
  console.error(message);
  process.exit(1);
}

function isGenuine(body, signature = '', timestamp = '') {
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300)
    return false;
  const hash = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
  const [given, wanted] = [Buffer.from(signature), Buffer.from(`sha256=${hash}`)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

const server = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  const { 'x-service-signature': signature, 'x-service-timestamp': timestamp } = request.headers;
  if (!isGenuine(body, signature, timestamp)) {
    response.writeHead(401).end();
    return;
  }
  const { type, id } = JSON.parse(body.toString());
  console.log(type, id);
  response.writeHead(204).end();
});
server.on('error', ({ message }) => stop(message));
server.listen(Number(port), '127.0.0.1');
