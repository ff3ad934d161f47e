import { type ReactElement, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Dialog, Notice } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import type { AppContext } from '../parts/app-context.ts';
import { meaningOf, type SampleType, sampleTypes } from '../parts/event-types.ts';

type Answer = Pick<
  components['schemas']['PingAnswer'],
  'status' | 'durationMs' | 'error' | 'response'
>;

/** Sends a test event of any type to the endpoint and shows the answer. */
export function TestEvent({
  context: { session, app },
  webhookId,
  onClose,
}: {
  context: AppContext;
  webhookId: string;
  onClose: () => void;
}): ReactElement {
  const [type, setType] = useState<SampleType>('ping');
  const [busy, setBusy] = useState(false);
  const [answer, setAnswer] = useState<Answer>();
  const [sent, setSent] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const send = async (): Promise<Answer> => {
    const { client } = session;
    if (type === 'ping')
      return client.post('/merchant/apps/{appId}/webhooks/{webhookId}/test', {
        path: { appId: app.id, webhookId },
      });
    const sample = await client.post('/merchant/apps/{appId}/events/sample', {
      path: { appId: app.id },
      body: { type },
    });
    setSent(sample.body);
    return { ...sample, durationMs: sample.durationMs ?? 0 };
  };
  const run = () => {
    setBusy(true);
    setProblem(undefined);
    setAnswer(undefined);
    setSent(undefined);
    send()
      .then(setAnswer, (error: unknown) => setProblem(wordsOf(error)))
      .finally(() => setBusy(false));
  };
  return (
    <Dialog title="Send a test event" onClose={onClose}>
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          run();
        }}
      >
        <label>
          Type
          <select
            value={type}
            autoFocus
            onChange={({ target }) =>
              setType(sampleTypes.find((one) => one === target.value) ?? 'ping')
            }
          >
            {sampleTypes.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <p className="muted small">
          {meaningOf(type) !== '' && `It tells that ${meaningOf(type)}. `}It is signed like a real
          one and sent once.
          {type !== 'ping' && (
            <>
              {' '}
              Its ids are made up, and <code>data.test</code> is true: your code must not act on it.
            </>
          )}
        </p>
        {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
        {sent !== undefined && (
          <pre className="body" tabIndex={0} aria-label="The event that was sent">
            {foreign(sent, 8000)}
          </pre>
        )}
        {answer !== undefined && <EndpointAnswer answer={answer} />}
        <div className="actions end">
          <Button onClick={onClose}>Close</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Send
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function EndpointAnswer({ answer }: { answer: Answer }): ReactElement {
  const { status, durationMs, error, response } = answer;
  const isGood = status !== null && status >= 200 && status < 300;
  return (
    <Notice
      kind={isGood ? 'success' : 'warning'}
      title={
        status === null
          ? `No answer: ${foreign(error, 200)}`
          : `Answered ${status} in ${durationMs} ms`
      }
    >
      {response !== null && response !== '' && (
        <pre className="body" tabIndex={0} aria-label="The endpoint’s answer">
          {foreign(response, 2000)}
        </pre>
      )}
    </Notice>
  );
}
