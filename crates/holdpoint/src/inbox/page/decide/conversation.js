//! Conversations: the messages so far, and the form for the next message.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { time } from "../show/time.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { isMarked } from "./approval.js";
import { isObject, nameOf } from "./model.js";

export function conversationContent(interrupt, { interrupts = [], now }) {
    const turns = turnsOf(interrupt, interrupts);
    return [
        h(
            "section",
            { class: "shown", "aria-labelledby": "shown-heading" },
            h("h2", { id: "shown-heading", class: "visually-hidden" }, texts.turns),
            h(
                "ol",
                { class: "chat" },
                turns.map((turn) => message(turn, now)),
            ),
        ),
    ];
}

/** @returns {{who: "run" | "person", by?: string, words: unknown, at: string, key: string}[]} */
export function turnsOf(interrupt, interrupts) {
    const id = interrupt.data.conversationId;
    const ours = interrupts.filter((other) => other.kind.startsWith("conversation.") && other.data.conversationId === id);
    const list = ours.length > 0 ? ours : [interrupt];
    return list.flatMap((turn) => {
        const messages = [];
        const prompt =
            turn.data.prompt ?? turn.data.initialPrompt ?? (turn.kind === "conversation.close" ? turn.data.reason : undefined);
        if (prompt !== undefined) {
            messages.push({ who: "run", words: prompt, at: turn.requestedAt, key: `${turn.interruptId} ?` });
        }
        if (turn.kind === "conversation.exchange" && turn.decision && turn.status === "answered") {
            messages.push({
                who: "person",
                by: nameOf(turn.decision.by),
                words: turn.decision.value,
                at: turn.decision.at,
                key: `${turn.interruptId} !`,
            });
        }
        return messages;
    });
}

function message({ who, by, words, at, key }, now) {
    return h(
        "li",
        { class: `turn turn-${who}`, key },
        h("p", { class: "turn-by" }, by ?? "", by ? " · " : "", time(at, now)),
        artifact(words, typeof words === "string" && isMarked(words) ? "text/markdown" : "text/plain"),
    );
}

export function conversationWays(interrupt, tools) {
    const { outcomeSchema } = interrupt.data;
    const isFree = !isObject(outcomeSchema) || Object.keys(outcomeSchema).length === 0;
    const schema = isFree ? { type: "string", format: "textarea", title: texts.message, minLength: 1 } : outcomeSchema;
    const fields = form(schema, { id: `${tools.id}-turn`, change: tools.change, names: isFree ? {} : { "": texts.message } });
    return [{ id: "send", label: texts.send, look: "accept", isOpen: true, fields, build: (value) => value }];
}
