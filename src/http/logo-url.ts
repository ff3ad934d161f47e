/** Where an app's logo is served (routes/app-logo.ts). Another logo has another URL. */
export function logoUrlOf(publicUrl: string, appId: string, version: string | null): string | null {
  return version === null ? null : `${publicUrl}/logos/${appId}/${version}`;
}
