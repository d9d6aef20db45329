//! What a run asked before, and who said what.

import { folded, h } from "../dom.js";
import { artifact } from "../show/artifact.js";
import { shortText } from "../show/characters.js";
import { time } from "../show/time.js";
import { pause as texts } from "../texts/pause.js";
import { actionText } from "./people.js";
import { decisionOf, headline, ofTable } from "./model.js";

const SHOWN = 20;
const WORDS_SHOWN = 400;
const ID_SHOWN = 80;

/** Those before `pause`, the newest first. */
export function history(pauses, pause, { now, link }) {
    const at = pauses.findIndex((other) => other.interruptId === pause.interruptId);
    // A conversation stands in its chat; only others are of before.
    const talk = pause.data.conversationId;
    const isOther = ({ kind, data }) =>
        !kind.startsWith("conversation.") || (kind === "conversation.exchange" && data.conversationId !== talk);
    const earlier = pauses.slice(0, Math.max(0, at)).filter(isOther).reverse();
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

function entry(pause, now, link) {
    const decision = decisionOf(pause);
    return h(
        "li",
        { key: pause.interruptId },
        h(
            "p",
            { class: "history-title" },
            pause.status === "open" && link ? h("a", { href: link(pause) }, headline(pause)) : headline(pause),
        ),
        outcomeLine(pause, now),
        decision && decision.value !== null && decision.value !== undefined
            ? folded(texts.whatWasSaid, () => [artifact(decision.value)], { class: "source" })
            : null,
    );
}

/** The credential of a decision, or null if the server does not name one. */
function viaText(via) {
    const kind = ofTable(texts.vias, via?.type);
    return kind ? ` · ${kind} ${shortText(String(via.id ?? ""), ID_SHOWN)}` : null;
}

/** Who decided what and when; or that nobody did. */
export function outcomeLine(pause, now) {
    const decision = decisionOf(pause);
    if (pause.status === "open") {
        return h("p", { class: "turn-by" }, texts.states.open, " · ", time(pause.requestedAt, now));
    }
    if (pause.status === "timed-out") {
        return h("p", { class: "turn-by" }, texts.nobody);
    }
    if (!decision) {
        return h("p", { class: "turn-by" }, ofTable(texts.states, pause.status) ?? "");
    }
    const line = h("p", { class: "turn-by" }, `${decision.by}: ${actionText(decision.action)}, `, time(decision.at, now), viaText(decision.via));
    const words = decision.value?.feedback ?? decision.value?.refineFeedback?.text;
    return typeof words === "string" && words !== ""
        ? h("div", {}, line, h("p", { class: "turn-words" }, "“", shortText(words, WORDS_SHOWN), "”"))
        : line;
}
