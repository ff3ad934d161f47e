// A stranger with a merchant of its own: payers, two plans, and what it puts into the queues.
import { setTimeout as pause } from 'node:timers/promises';
import { generateKeypair, type Keypair } from '../../src/chain/keypair.ts';
import { timeOf } from '../../src/chain/time.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { storeSigned } from '../../src/db/offers/offers.ts';
import { createTokens } from '../../src/domain/accounts/tokens.ts';
import type { Checkouts, Wallet } from '../checkout/checkouts.ts';
import type { Database } from '../dispatch/harness.ts';
import { register } from '../keeper/collect.ts';
import { AMOUNT, type Chain, openPlan, PERIOD_HOURS } from '../keeper/scene.ts';

/** Payers of the stranger's plan, so that three refunds of each payment make 50. */
const PAYERS = 16;
/** Open refunds of a payment, open refunds of the merchant, and offers that are put off. */
const [REFUNDS_OF_PAYMENT, REFUNDS, PUT_OFF] = [3, 50, 54];
/** The address of the stranger's signed offers. */
const SIGNER = '203.0.113.8';
const LARGER = 4n * AMOUNT;

export const tokensOf = ({ url }: Pick<Checkouts, 'url'>) => createTokens(['j'.repeat(32)], url);

interface Ids {
  readonly appId: string;
  readonly planId: string;
  readonly largerId: string;
}

export class Stranger {
  readonly planId: string;
  readonly #ids: Ids;
  readonly #merchant: Keypair;
  readonly #chain: Chain;
  readonly #database: Database;
  readonly #checkouts: Checkouts;
  /** Wallets that change their plan, one for each time that offers are put off. */
  #payers: Wallet[] = [];

  private constructor(
    ids: Ids,
    merchant: Keypair,
    chain: Chain,
    database: Database,
    checkouts: Checkouts,
  ) {
    this.planId = ids.planId;
    this.#ids = ids;
    this.#merchant = merchant;
    this.#chain = chain;
    this.#database = database;
    this.#checkouts = checkouts;
  }

  /**
   * Publishes two plans. Resolves when the payers of the first have paid. `times`: how often offers
   * can be put off.
   */
  static async open(
    chain: Chain,
    database: Database,
    checkouts: Checkouts,
    times: number,
  ): Promise<Stranger> {
    const { sql } = database;
    const of = { ...chain, merchant: generateKeypair() };
    const { address } = of.merchant;
    await chain.call('requestAirdrop', address, 1_000_000_000);
    await chain.call('localnet_faucet', address, '1');
    await chain.call('localnet_mineBlocks', 2);
    const plan = await openPlan(of, PAYERS, 1);
    const larger = await openPlan(of, 0, 0, PERIOD_HOURS, { planId: 2n, amount: LARGER });
    await register(sql, of, plan, timeOf(BigInt(await chain.now())));
    const [ids] = await sql<[Ids]>`
      with small as (
        select id, app_id, owner, mint, treasury, puller, period_hours, status from plans
        where plan_pda = ${plan.pda}
      ), larger as (
        insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller,
          amount, period_hours, status, chain_created_at)
        select app_id, 'larger', ${larger.pda}, 2, owner, mint, treasury, puller, ${LARGER},
          period_hours, status, ${timeOf(larger.createdAt)} from small
        returning id
      )
      select small.app_id, small.id as plan_id, larger.id as larger_id from small, larger`;
    const stranger = new Stranger(ids, of.merchant, chain, database, checkouts);
    while ((await stranger.#payments()).length < PAYERS) await pause(200);
    stranger.#payers = await Promise.all(Array.from({ length: times }, () => stranger.#payer()));
    return stranger;
  }

  /** The payments of others than #payers. */
  async #payments(): Promise<{ id: string }[]> {
    return this.#database.sql<{ id: string }[]>`
      select id from payments
      where plan_id = ${this.planId} and status = 'succeeded'
        and subscriber_wallet <> all(${this.#payers.map(({ keypair }) => keypair.address)}::text[])
      order by id`;
  }

  async #ask<T>(role: 'merchant' | 'subscriber', by: Keypair, path: string, body: unknown) {
    const bearer = { wallet: by.address, role, page: null };
    const { token } = await tokensOf(this.#checkouts).issue(bearer);
    const sent = { secret: token, body };
    const answer = await this.#checkouts.request(SIGNER, 'POST', path, sent);
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return (answer.body as { data: T }).data;
  }

  /** Makes offers of sign-ups, all for one address. Returns what hands them over. */
  async signUps(count: number): Promise<() => Promise<void>> {
    const funded = await this.#checkouts.fund(count);
    const wallets = funded.map((one) => ({ ...one, address: SIGNER }));
    const made = await Promise.all(
      wallets.map(async (wallet) => ({
        ...{ wallet, offer: await this.#checkouts.offer(wallet, this.planId) },
      })),
    );
    return async () => {
      await Promise.all(
        made.map(({ wallet, offer: { offerId, secret, transaction } }) => {
          const body = { transaction: addSignature(wallet.keypair, transaction) };
          const path = `/checkout/offers/${offerId}/transaction`;
          return this.#checkouts.request(SIGNER, 'POST', path, { secret, body });
        }),
      );
    };
  }

  #refund(paymentId: string): Promise<unknown> {
    const path = `/merchant/apps/${this.#ids.appId}/transactions/${paymentId}/refunds`;
    return this.#ask('merchant', this.#merchant, path, { amount: '1' });
  }

  /** Asks for refunds that the merchant never signs. Returns their number. */
  async askRefunds(): Promise<number> {
    let asked = 0;
    const most = REFUNDS - this.#payers.length;
    for (const { id } of await this.#payments())
      for (let count = 0; count < REFUNDS_OF_PAYMENT && asked < most; count += 1) {
        await this.#refund(id);
        asked += 1;
      }
    return asked;
  }

  /**
   * Hands over changes of plan that keepers put off, because a refund of the payment is pending.
   * Returns what counts those that are still undecided. They are copies of one change: a wallet may
   * have only one of them undecided.
   */
  async putOff(): Promise<() => Promise<number>> {
    const { sql } = this.#database;
    const wallet = this.#payers.pop();
    if (wallet === undefined) throw new Error('no payer is left');
    const [first] = await sql<{ id: string; paymentId: string }[]>`
      select s.id, p.id as payment_id from subscriptions s join payments p
        on p.subscription_id = s.id where s.subscriber_wallet = ${wallet.keypair.address}`;
    if (first === undefined) throw new Error('the payer has no subscription');
    const change = { planId: this.#ids.largerId, when: 'now', sponsored: true };
    const shown = await this.#ask<{ sponsored: boolean; offerId: string; transaction: string }>(
      'subscriber',
      wallet.keypair,
      `/subscriber/subscriptions/${first.id}/change`,
      change,
    );
    if (!shown.sponsored) throw new Error(`not sponsored: ${JSON.stringify(shown)}`);
    await this.#refund(first.paymentId);
    const signed = Buffer.from(addSignature(wallet.keypair, shown.transaction), 'base64');
    const copies = await sql<{ id: string }[]>`
      insert into offers (purpose, wallet, sponsor, plan_id, subscription_pda, address,
        message, blockhash, last_valid_block_height, blockhash_slot, compute_units, unit_price,
        loaded_data_bytes, replaces, credit_at)
      select purpose, wallet, sponsor, plan_id, subscription_pda, address, message, blockhash,
        last_valid_block_height, blockhash_slot, compute_units, unit_price, loaded_data_bytes,
        replaces, credit_at
      from offers cross join generate_series(1, ${PUT_OFF}) where id = ${shown.offerId}
      returning id`;
    const ids = copies.map(({ id }) => id);
    for (const id of ids) await storeSigned(sql, id, signed);
    return async () => {
      const [row] = await sql<[{ count: number }]>`
        select count(*)::int as count from offers o where o.id = any(${ids}::uuid[])
          and not exists (select from sponsorships s where s.offer_id = o.id)`;
      return row.count;
    };
  }

  /** A wallet without SOL that has subscribed to the plan, and can pay the larger one. */
  async #payer(): Promise<Wallet> {
    const [wallet] = (await this.#checkouts.fund(1)) as [Wallet];
    await this.#chain.call('localnet_faucet', wallet.keypair.address, LARGER.toString());
    await this.#chain.call('localnet_mineBlocks', 2);
    const offer = await this.#checkouts.offer(wallet, this.planId);
    const signed = addSignature(wallet.keypair, offer.transaction);
    await this.#checkouts.post(wallet, offer, signed);
    return wallet;
  }
}
