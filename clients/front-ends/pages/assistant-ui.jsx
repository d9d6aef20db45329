//! A chat of assistant-ui with an agent of Holdpoint.

import { HttpAgent } from "@ag-ui/client";
import { AssistantRuntimeProvider, ComposerPrimitive, ExportedMessageRepository, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiInterrupts, useAgUiRuntime, useAgUiState, useAgUiSteerAway, useAgUiSubmitInterruptResponses } from "@assistant-ui/react-ag-ui";
import { useMemo, useRef } from "react";
import { createRoot } from "react-dom/client";
import { Card } from "./card.jsx";

/** Reads the thread when the page is loaded: the chat then has the history and the open interrupts. */
function historyOf({ url, headers, threadId }) {
    return {
        async load() {
            const response = await fetch(`${url}/threads/${encodeURIComponent(threadId)}`, { headers });
            if (response.status === 404) return { messages: [] };
            const { messages, interrupts, state } = await response.json();
            const shown = fromAgUiMessages(messages);
            const last = shown.findLast(({ role }) => role === "assistant");
            if (last && interrupts.length > 0) {
                last.status = { type: "requires-action", reason: "interrupt" };
                last.metadata = { ...last.metadata, custom: { ...last.metadata?.custom, agui: { interrupts } } };
            }
            return { ...ExportedMessageRepository.fromArray(shown), state };
        },
        // The server keeps the thread.
        async append() {},
    };
}

/** Every open interrupt has a card; the answers are sent together. */
function Interrupts() {
    const interrupts = useAgUiInterrupts();
    const submit = useAgUiSubmitInterruptResponses();
    const steerAway = useAgUiSteerAway();
    const given = useRef(new Map());
    if (interrupts.length === 0) return null;
    const give = (interruptId, response) => {
        given.current.set(interruptId, { interruptId, ...response });
        const answers = interrupts.map(({ id }) => given.current.get(id));
        if (answers.every(Boolean)) void submit(answers);
    };
    const say = (event) => {
        event.preventDefault();
        void steerAway(new FormData(event.currentTarget).get("words"));
    };
    return (
        <div>
            {interrupts.map((interrupt) => (
                <Card
                    key={interrupt.id}
                    interrupt={interrupt}
                    answer={(payload) => give(interrupt.id, { status: "resolved", payload })}
                    cancel={() => give(interrupt.id, { status: "cancelled" })}
                />
            ))}
            <form className="instead" onSubmit={say}>
                <input name="words" /> <button type="submit">Say instead</button>
            </form>
        </div>
    );
}

function State() {
    return <pre id="state">{JSON.stringify(useAgUiState() ?? {})}</pre>;
}

const Message = () => (
    <MessagePrimitive.Root>
        <MessagePrimitive.Parts />
    </MessagePrimitive.Root>
);

function Chat({ url, headers, threadId }) {
    const agent = useMemo(() => new HttpAgent({ url, headers, threadId }), []);
    const history = useMemo(() => historyOf({ url, headers, threadId }), []);
    const runtime = useAgUiRuntime({ agent, adapters: { history } });
    return (
        <AssistantRuntimeProvider runtime={runtime}>
            <ThreadPrimitive.Root>
                <ThreadPrimitive.Messages components={{ Message }} />
                <Interrupts />
                <State />
                <ComposerPrimitive.Root>
                    <ComposerPrimitive.Input id="composer" />
                    <ComposerPrimitive.Send id="send">Send</ComposerPrimitive.Send>
                </ComposerPrimitive.Root>
            </ThreadPrimitive.Root>
        </AssistantRuntimeProvider>
    );
}

const { agent, thread, server, key } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
createRoot(document.querySelector("#root")).render(
    <Chat url={`${server}/ag-ui/${agent}`} headers={{ Authorization: `Bearer ${key}` }} threadId={thread} />,
);
