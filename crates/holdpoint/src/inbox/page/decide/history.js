//! The earlier interrupts of a run and their answers.

import { folded, h } from "../dom.js";
import { artifact } from "../show/artifact.js";
import { shortText } from "../show/characters.js";
import { time } from "../show/time.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { actionText } from "./people.js";
import { decisionOf, headline, entryOf } from "./model.js";

const SHOWN = 20;
const WORDS_SHOWN = 400;
const ID_SHOWN = 80;

/** Describes the interrupts before `interrupt`, newest first. */
export function history(interrupts, interrupt, { now, link }) {
    const at = interrupts.findIndex((other) => other.interruptId === interrupt.interruptId);
    // The turns of the same conversation are shown as its messages.
    const { conversationId } = interrupt.data;
    const isOther = ({ kind, data }) =>
        !kind.startsWith("conversation.") || (kind === "conversation.exchange" && data.conversationId !== conversationId);
    const earlier = interrupts.slice(0, Math.max(0, at)).filter(isOther).reverse();
    return h(
        "section",
        { class: "side-part history", "aria-labelledby": "history-heading" },
        h("h2", { id: "history-heading" }, texts.history),
        earlier.length === 0
            ? h("p", { class: "nothing" }, texts.noHistory)
            : h(
                  "ol",
                  {},
                  earlier.slice(0, SHOWN).map((other) => entry(other, now, link)),
              ),
    );
}

function entry(interrupt, now, link) {
    const decision = decisionOf(interrupt);
    return h(
        "li",
        { key: interrupt.interruptId },
        h(
            "p",
            { class: "history-title" },
            interrupt.status === "open" && link ? h("a", { href: link(interrupt) }, headline(interrupt)) : headline(interrupt),
        ),
        outcomeLine(interrupt, now),
        decision && decision.value !== null && decision.value !== undefined
            ? folded(texts.answerValue, () => [artifact(decision.value)], { class: "source" })
            : null,
    );
}

/** Returns the credential of a decision, or null if the server does not name it. */
function viaText(via) {
    const kind = entryOf(texts.vias, via?.type);
    return kind ? ` · ${kind} ${shortText(String(via.id ?? ""), ID_SHOWN)}` : null;
}

/** Describes the decision of an interrupt with its principal and time, or its state if there is none. */
export function outcomeLine(interrupt, now) {
    const decision = decisionOf(interrupt);
    if (interrupt.status === "open") {
        return h("p", { class: "turn-by" }, texts.states.open, " · ", time(interrupt.requestedAt, now));
    }
    if (interrupt.status === "timed-out") {
        return h("p", { class: "turn-by" }, texts.expired);
    }
    if (!decision) {
        return h("p", { class: "turn-by" }, entryOf(texts.states, interrupt.status) ?? "");
    }
    const line = h("p", { class: "turn-by" }, `${decision.by}: ${actionText(decision.action)}, `, time(decision.at, now), viaText(decision.via));
    const words = decision.value?.feedback ?? decision.value?.refineFeedback?.text;
    const parts = [line];
    if (typeof words === "string" && words !== "") {
        parts.push(h("p", { class: "turn-words" }, "“", shortText(words, WORDS_SHOWN), "”"));
    }
    if (decision.clientMetadata) {
        // The server does not verify this data, so it is not shown like the principal above.
        const claims = shortText(JSON.stringify(decision.clientMetadata), WORDS_SHOWN);
        parts.push(h("p", { class: "turn-words" }, `${texts.clientMetadata} ${claims}`));
    }
    return parts.length > 1 ? h("div", {}, ...parts) : line;
}
