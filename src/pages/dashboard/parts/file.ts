// Downloads files from the API. A link cannot send the access token, so the page itself reads the
// file and passes it to the browser.

/** Milliseconds until the memory of a file is released. The browser has read the file by then. */
const KEPT_MS = 60_000;

type FileStream = ReadableStream<Uint8Array<ArrayBuffer>>;

async function urlOf(stream: FileStream, type: string): Promise<string> {
  const headers = { 'content-type': type };
  const url = URL.createObjectURL(await new Response(stream, { headers }).blob());
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
  return url;
}

export async function saveFile(stream: FileStream, name: string): Promise<void> {
  const href = await urlOf(stream, 'application/octet-stream');
  Object.assign(document.createElement('a'), { href, download: name }).click();
}

/**
 * Opens a document in a new tab. The tab is opened before the document is read, because a browser
 * blocks tabs that open long after the click.
 */
export async function openDocument(read: () => Promise<FileStream>): Promise<void> {
  const tab = window.open('', '_blank');
  if (tab === null)
    throw new Error(
      'The browser blocked the new tab: allow pop-ups for this page, then try again.',
    );
  try {
    tab.location.href = await urlOf(await read(), 'text/html');
  } catch (error) {
    tab.close();
    throw error;
  }
}
