// Shows the sandbox's controls on the dashboard. Each control links to the sandbox's own server,
// which runs the action and redirects back.

/** Matches the base URL of the controls. The URL contains the sandbox's secret. */
export const controlPattern = /^http:\/\/127\.0\.0\.1:\d+\/control\/[0-9a-f]{32}$/;

const actions = [
  ['month', '+1 month'],
  ['repair', 'Repair the webhook'],
] as const;
/** Actions on the wallet of the subscription that the dashboard is showing. */
const walletActions = [
  ['empty', 'Empty this wallet'],
  ['revoke', 'Revoke the approval'],
] as const;

/** Shows the controls below the dashboard. `control` is their base URL. */
export function showControls(control: string): void {
  const bar = document.createElement('aside');
  bar.className = 'demo-controls';
  bar.setAttribute('aria-label', 'Sandbox');
  const link = (name: string, text: string, subscription?: string) => {
    const query = new URLSearchParams({ back: location.hash });
    if (subscription !== undefined) query.set('subscription', subscription);
    const anchor = document.createElement('a');
    anchor.className = 'button plain';
    anchor.href = `${control}/${name}?${query.toString()}`;
    anchor.textContent = text;
    return anchor;
  };
  const render = () => {
    const [, subscription] = /^#\/subscriptions\/([0-9a-f-]{36})(?:\?|$)/.exec(location.hash) ?? [];
    const title = document.createElement('strong');
    title.textContent = 'Sandbox';
    bar.replaceChildren(
      title,
      ...actions.map(([name, text]) => link(name, text)),
      ...(subscription === undefined
        ? []
        : walletActions.map(([name, text]) => link(name, text, subscription))),
    );
  };
  render();
  addEventListener('hashchange', render);
  document.body.append(bar);
}
