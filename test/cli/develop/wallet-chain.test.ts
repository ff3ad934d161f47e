// What `billing wallet send` tells of a transaction that it sends to the chain itself.
import t from 'tap';
import { generateKeypair, type Keypair, signatureOf } from '../../../src/chain/keypair.ts';
import { initAuthority } from '../../../src/chain/program/instructions.ts';
import { addSignature, unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { sendAndConfirm } from '../../../src/cli/develop/wallet-chain.ts';
import { type Stage, startStage } from '../../fixtures/billing.ts';

const { signal } = new AbortController();

/** Signs a transaction of the wallet. It fails for a wallet without a USDC account. */
async function signed({ net, rpc }: Stage, wallet: Keypair) {
  const { blockhash } = await rpc.getLatestBlockhash();
  const instruction = initAuthority(net.programId, { user: wallet.address, mint: net.mint });
  const unsigned = unsignedTransaction(wallet.address, [instruction], blockhash);
  const transaction = addSignature(wallet, unsigned);
  const bytes = Buffer.from(transaction, 'base64');
  return { transaction, bytes, signature: signatureOf(bytes) };
}

void t.test(
  'wallet commands print the outcome of a transaction when the outcome is final',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    stage.net.mineBlocks(60);
    const tell = ({ transaction }: { transaction: string }) =>
      sendAndConfirm(stage.net.rpcUrl, transaction, signal);

    const landing = await signed(stage, stage.wallet());
    const told = tell(landing);
    await stage.until('it is sent', async () => {
      const { statuses } = await stage.rpc.getSignatureStatuses([landing.signature]);
      return statuses[0] !== null;
    });
    stage.net.mineBlocks(2);
    t.equal(await told, landing.signature);

    const poor = generateKeypair();
    stage.net.fund(poor.address, { lamports: 1_000_000_000n });
    stage.net.mineBlocks(2);
    const failing = await signed(stage, poor);
    await stage.rpc.sendTransaction(failing.bytes);
    stage.net.mineBlocks(40);
    await t.rejects(tell(failing), { message: /failed: .*InstructionError/ });

    const lost = await signed(stage, stage.wallet());
    stage.net.mineBlocks(200);
    await t.rejects(tell(lost), { message: /expired before it landed, and moved nothing/ });
    const { statuses } = await stage.rpc.getSignatureStatuses([lost.signature]);
    t.same(statuses, [null], 'it was not sent any more');
    t.equal(await tell(landing), landing.signature, 'also after its blockhash has expired');
  },
);
