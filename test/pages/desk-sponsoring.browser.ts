// The dashboard says when almost as much sponsored rent of the merchant is out as may be out.
import t from 'tap';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

void t.test('the dashboard warns a merchant that its sponsoring is near the limit', async (t) => {
  const env = {
    SPONSOR_LAMPORTS_PER_DAY: '1000000000',
    SPONSOR_MERCHANT_LAMPORTS_START: '50000000',
  };
  const stage = await startStage(t, { keeper: false, env });
  const { chain, served, merchant } = stage;
  const { sql } = served;
  await sql`
    with sent as (
      insert into transactions (signature, state, blockhash_slot, last_valid_block_height)
      values (sha512('sponsored'), 'landed', 1, 1) returning id
    )
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id,
      transaction_id, state, authority_rent, ended_at)
    select gen_random_uuid(), 'subscribe', 'w', 'a', 's', ${merchant.merchantId}, id, 'landed',
      45000000, now() from sent`;
  const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
  const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
  await page.goto('/dashboard');
  await page.getByRole('button', { name: /Sign in with/ }).click();
  await page.getByText('Sponsoring is near its limit').waitFor();
  await page.getByText('0.045 of 0.05 SOL of rent').waitFor();
  await inspect(t, page, 'desk-sponsoring');
  await sql`update merchants set sponsoring_lamports = 100000000`;
  await page.getByText('Sponsoring is near its limit').waitFor({ state: 'detached' });
  t.same(faults, []);
});
