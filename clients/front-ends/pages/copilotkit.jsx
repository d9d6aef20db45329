//! A chat of CopilotKit with an agent of Holdpoint, directly or through CopilotKit's runtime.

import { CopilotChat, CopilotKitProvider, HttpAgent, runHttpRequest, transformHttpEventStream, useAgent, useInterrupt } from "@copilotkit/react-core/v2";
import { useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import { Card } from "./card.jsx";

/** Joins the thread when the page is loaded: the chat then has the history and the open interrupts. */
class HoldpointAgent extends HttpAgent {
    connect({ threadId }) {
        const url = `${this.url}/threads/${encodeURIComponent(threadId)}/stream`;
        return transformHttpEventStream(runHttpRequest(() => fetch(url, { headers: this.headers })));
    }
}

/** Every open interrupt has a card: CopilotKit sends the answers when there is one for each. */
function Interrupts({ agentId }) {
    const { agent } = useAgent({ agentId });
    useInterrupt({
        agentId,
        render: ({ interrupts, resolve, cancel }) => (
            <div>
                {interrupts.map((interrupt) => (
                    <Card
                        key={interrupt.id}
                        interrupt={interrupt}
                        answer={(payload) => resolve(payload, interrupt.id)}
                        cancel={() => cancel(interrupt.id)}
                    />
                ))}
                <SayInstead say={(content) => {
                    agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
                    interrupts.forEach(({ id }) => cancel(id));
                }} />
            </div>
        ),
    });
}

/** A message instead of answers: cancels every interrupt and sends the message to the agent. */
function SayInstead({ say }) {
    const submit = (event) => {
        event.preventDefault();
        say(new FormData(event.currentTarget).get("words"));
    };
    return (
        <form className="instead" onSubmit={submit}>
            <input name="words" /> <button type="submit">Say instead</button>
        </form>
    );
}

function State({ agentId }) {
    const { agent } = useAgent({ agentId });
    return <pre id="state">{JSON.stringify(agent.state)}</pre>;
}

/** Returns the connection: with the key of the user, or only with the address of the runtime. */
function connection({ agent, server, key, runtime }) {
    if (runtime) return { runtimeUrl: runtime };
    const headers = { Authorization: `Bearer ${key}` };
    return { selfManagedAgents: { [agent]: new HoldpointAgent({ url: `${server}/ag-ui/${agent}`, headers }) } };
}

function Page({ options }) {
    const { agent, thread } = options;
    const provider = useMemo(() => connection(options), [options]);
    const [error, setError] = useState();
    return (
        <CopilotKitProvider {...provider} showDevConsole={false} onError={({ error }) => setError(error.message)}>
            <p id="error">{error}</p>
            <Interrupts agentId={agent} />
            <State agentId={agent} />
            <CopilotChat agentId={agent} threadId={thread} />
        </CopilotKitProvider>
    );
}

const options = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
createRoot(document.querySelector("#root")).render(<Page options={options} />);
