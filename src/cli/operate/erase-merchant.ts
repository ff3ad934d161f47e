// `billing merchants erase`: erases a merchant's personal data; payments stay, because they are the
// books.
import { runCommand } from '../../daemon/run.ts';
import { countLiveSubscriptions, eraseMerchant } from '../../db/erasure.ts';
import { OperatorError } from '../../errors.ts';
import { merchantOf } from '../lookups.ts';
import { canAsk, confirm } from '../terminal/ask.ts';
import { answer, answerJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';

export interface EraseFlags {
  envFile?: string;
  yes?: boolean;
  json?: boolean;
}

/**
 * Asks for confirmation and erases. Returns the exit code: 1 when it was not confirmed. Throws an
 * OperatorError while the merchant has live subscriptions.
 */
export function erase(
  text: string,
  { envFile, yes = false, json = false }: EraseFlags,
): Promise<number> {
  return runCommand(envFile, async ({ sql, signal, log }) => {
    const { id, wallet } = await merchantOf(sql, text);
    const live = await countLiveSubscriptions(sql, id);
    if (live > 0)
      throw new OperatorError(
        `${wallet} has ${live} active or past due subscriptions. Cancel them first (mode "force"): nothing was erased.`,
      );
    if (!yes) {
      if (!canAsk())
        throw new OperatorError('Nothing was erased: without a terminal, add --yes.', 2);
      const question = `Erase names, e-mail, URLs, API keys, webhooks and the texts of events of ${wallet}? This cannot be undone.`;
      if (!(await confirm(question, signal))) return 1;
    }
    const erased = await withProgress('erasing', () => eraseMerchant(sql, { id, wallet }));
    log.info({ merchantId: id, ...erased }, 'merchant erased');
    if (json) answerJson({ id, wallet, ...erased });
    else
      answer(
        `Erased of ${wallet}: ${erased.apps} apps, ${erased.plans} plans, ${erased.keys} API keys, ${erased.endpoints} webhook endpoints, ` +
          `${erased.subscriptions} subscriptions' own ids, ${erased.checkouts} checkout sessions, ${erased.events} events, ${erased.deliveries} deliveries. Payments stay: they are the books.`,
      );
    return 0;
  });
}
