//! Side questions, their answers, and a form to answer them.

import { interruptPath } from "../api.js";
import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { time } from "../show/time.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { nameOf } from "./model.js";
import { afterChange, panel } from "./panel.js";

const ANSWER_MAX = 4096;

/**
 * @param {import("./model.js").Interrupt} interrupt
 * @param {{now: number, panelFor?: (ask: Object) => {describe: Function} | null}} facts
 */
export function questions(interrupt, { now, panelFor = () => null }) {
    if (interrupt.asks.length === 0) {
        return null;
    }
    return h(
        "section",
        { class: "asks", "aria-labelledby": "asks-heading" },
        h("h2", { id: "asks-heading" }, texts.asks),
        h(
            "ul",
            {},
            interrupt.asks.map((ask) => item(ask, now, interrupt.status === "open" ? panelFor(ask) : null)),
        ),
    );
}

function item(ask, now, answering) {
    const isAnswered = typeof ask.answer === "string";
    return h(
        "li",
        { class: "ask", key: `ask ${ask.askId}` },
        h("p", { class: "turn-by" }, nameOf(ask.askedBy), " · ", time(ask.askedAt, now)),
        artifact(String(ask.question ?? ""), "text/plain"),
        isAnswered
            ? h(
                  "div",
                  { class: "ask-answer" },
                  h("p", { class: "turn-by" }, nameOf(ask.answeredBy), " · ", time(ask.answeredAt, now)),
                  artifact(ask.answer, "text/plain"),
              )
            : h("p", { class: "nothing" }, texts.noAnswerYet),
        isAnswered ? null : answering?.describe(),
    );
}

/** Creates the panel that answers a side question. The server checks the permission. */
export function answerPanel(interrupt, ask, { api, keyFor, redraw, done }) {
    const id = `ask-${ask.askId}`;
    const schema = { type: "string", format: "textarea", title: texts.answerText, minLength: 1, maxLength: ANSWER_MAX };
    const fields = form(schema, { id, change: afterChange(redraw) });
    const way = {
        id,
        label: texts.answerThis,
        look: "plain",
        fields,
        prefix: "answer",
        submit: texts.sendAnswer,
        build: (answer) => ({ answer, interruptId: interrupt.interruptId }),
    };
    const path = `${interruptPath(interrupt.runId, interrupt.nodeId)}/asks/${encodeURIComponent(ask.askId)}`;
    const send = (body) => api.post(path, body, { idempotencyKey: keyFor({ path, body }) });
    return panel({ ways: [way], id, redraw, send, sent: done, over: done });
}
