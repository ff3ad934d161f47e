// Checks the proof that a website belongs to an app's merchant: the website's file
// /.well-known/billing.json contains the app's id.
import { ServiceError } from '../../errors.ts';

/** A website's response. Without a response, `httpStatus` is null and `error` is the reason. */
export interface WebsiteAnswer {
  httpStatus: number | null;
  error: string | null;
  response: Buffer | null;
}

/**
 * Throws CONFLICT unless the response is a JSON object whose `appId` is either the app's id or a
 * list with the app's id. The error message names `url`, the address of the response.
 */
export function checkProof(
  { httpStatus, error, response }: WebsiteAnswer,
  url: string,
  appId: string,
): void {
  if (httpStatus === null) throw refused(`${url} could not be read: ${error ?? 'error'}`);
  if (httpStatus !== 200)
    throw refused(`${url} answered ${httpStatus}, not 200; redirects are not followed`);
  const ids = appIdsIn(response?.toString('utf8') ?? '');
  if (ids === undefined)
    throw refused(`${url} must be JSON of at most 4 KiB such as {"appId": "${appId}"}`);
  if (!ids.includes(appId)) throw refused(`the appId in ${url} is not ${appId}`);
}

function refused(why: string): ServiceError {
  return new ServiceError('CONFLICT', `The website is not proven: ${why}.`);
}

function appIdsIn(text: string): unknown[] | undefined {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null || !('appId' in body)) return undefined;
    return [body.appId].flat();
  } catch {
    return undefined;
  }
}
