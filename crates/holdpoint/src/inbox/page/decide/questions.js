//! Questions beside a decision, their answers, and a form for whoever knows one.

import { pausePath } from "../api.js";
import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { time } from "../show/time.js";
import { pause as texts } from "../texts/pause.js";
import { nameOf } from "./model.js";
import { afterChange, panel } from "./panel.js";

const ANSWER_MAX = 4096;

/**
 * @param {import("./model.js").Pause} pause
 * @param {{now: number, panelFor?: (ask: Object) => {describe: Function} | null}} facts
 */
export function questions(pause, { now, panelFor = () => null }) {
    if (pause.asks.length === 0) {
        return null;
    }
    return h(
        "section",
        { class: "asks", "aria-labelledby": "asks-heading" },
        h("h2", { id: "asks-heading" }, texts.asks),
        h(
            "ul",
            {},
            pause.asks.map((ask) => item(ask, now, pause.status === "open" ? panelFor(ask) : null)),
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

/** A little panel that answers one question. The server says who may. */
export function answerPanel(pause, ask, { api, keyFor, redraw, done }) {
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
        build: (answer) => ({ answer, interruptId: pause.interruptId }),
    };
    const path = `${pausePath(pause.runId, pause.nodeId)}/asks/${encodeURIComponent(ask.askId)}`;
    const send = (body) => api.post(path, body, { idempotencyKey: keyFor({ path, body }) });
    return panel({ ways: [way], id, redraw, send, sent: done, over: done });
}
