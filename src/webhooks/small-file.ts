// Reads a small file of a merchant's website. The SSRF guard checks the address, as it does for
// webhooks.
import { type Answer, WebhookClient } from './http.ts';
import { createSsrfGuard, guardOptions, type GuardConfig } from './ssrf-guard.ts';

/**
 * Sends one GET and waits up to 5 s. A failure of the website is returned as a result, not thrown.
 * A redirect is not followed, and its status is returned as the result.
 */
export async function readSmallFile(
  config: GuardConfig,
  { origin, path }: { origin: string; path: string },
): Promise<Pick<Answer, 'httpStatus' | 'error' | 'response'>> {
  const client = new WebhookClient(createSsrfGuard(guardOptions(config)), {
    proxy: config.webhookProxy,
  });
  try {
    return await client.get({
      origin,
      path,
      headers: ['accept', 'application/json', 'user-agent', 'billing'],
    });
  } finally {
    client.close();
  }
}
