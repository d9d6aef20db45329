//! A chat of assistant-ui with an agent of Holdpoint.

import { HttpAgent } from "@ag-ui/client";
import { AssistantRuntimeProvider, ComposerPrimitive, ExportedMessageRepository, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiInterrupts, useAgUiRuntime, useAgUiState, useAgUiSteerAway, useAgUiSubmitInterruptResponses } from "@assistant-ui/react-ag-ui";
import { useMemo, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { Card } from "./card.jsx";

/** Reads the thread when the page is loaded: the chat then has the history and the open interrupts. */
function historyOf({ url, headers, threadId }) {
    return {
        async load() {
            const response = await fetch(`${url}/threads/${encodeURIComponent(threadId)}`, { headers });
            const thread = await response.json();
            // A thread exists from its first message on.
            if (response.status === 404) return { messages: [] };
            if (!response.ok) throw new Error(thread.message);
            const messages = fromAgUiMessages(thread.messages);
            if (thread.interrupts.length > 0) showInterrupts(messages, thread.interrupts);
            return { ...ExportedMessageRepository.fromArray(messages), state: thread.state };
        },
        // Holdpoint stores the thread.
        async append() {},
    };
}

/** assistant-ui looks for open interrupts in the last message of the assistant. */
function showInterrupts(messages, interrupts) {
    if (messages.at(-1)?.role !== "assistant") messages.push({ role: "assistant", content: [] });
    Object.assign(messages.at(-1), {
        status: { type: "requires-action", reason: "interrupt" },
        metadata: { custom: { agui: { interrupts } } },
    });
}

/**
 * Every open interrupt has a card. The answers are sent together, because assistant-ui does not send a part of them.
 */
function Interrupts({ onError }) {
    const interrupts = useAgUiInterrupts();
    const submit = useAgUiSubmitInterruptResponses();
    const steerAway = useAgUiSteerAway();
    const given = useRef(new Map());
    if (interrupts.length === 0) return null;
    const give = (interruptId, response) => {
        given.current.set(interruptId, { interruptId, ...response });
        const answers = interrupts.map(({ id }) => given.current.get(id));
        if (answers.every(Boolean)) submit(answers).catch(onError);
    };
    const say = (event) => {
        event.preventDefault();
        steerAway(new FormData(event.currentTarget).get("words")).catch(onError);
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
    const [error, setError] = useState();
    const onError = ({ message }) => setError(message);
    const runtime = useAgUiRuntime({ agent, adapters: { history }, onError });
    return (
        <AssistantRuntimeProvider runtime={runtime}>
            <p id="error">{error}</p>
            <ThreadPrimitive.Root>
                <ThreadPrimitive.Messages components={{ Message }} />
                <Interrupts onError={onError} />
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
