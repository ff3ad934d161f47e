/**
 * Returns the URL of an app's logo (routes/app-logo.ts), or null when the app has no logo. A new
 * logo gets a new URL.
 */
export function logoUrlOf(publicUrl: string, appId: string, version: string | null): string | null {
  return version === null ? null : `${publicUrl}/logos/${appId}/${version}`;
}
