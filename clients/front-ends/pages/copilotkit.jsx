//! A chat of CopilotKit with an agent of Holdpoint.

import { CopilotChat, CopilotKitProvider, HttpAgent, runHttpRequest, transformHttpEventStream, useAgent, useInterrupt } from "@copilotkit/react-core/v2";
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
function Interrupts() {
    const { agent } = useAgent();
    useInterrupt({
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

/** Words instead of answers: every interrupt is cancelled, and the agent hears them. */
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

function State() {
    const { agent } = useAgent();
    return <pre id="state">{JSON.stringify(agent.state)}</pre>;
}

const { agent, thread, server, key } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const agents = { default: new HoldpointAgent({ url: `${server}/ag-ui/${agent}`, headers: { Authorization: `Bearer ${key}` } }) };

createRoot(document.querySelector("#root")).render(
    <CopilotKitProvider selfManagedAgents={agents} showDevConsole={false}>
        <Interrupts />
        <State />
        <CopilotChat threadId={thread} />
    </CopilotKitProvider>,
);
