//! The dialog that confirms the decision of several items and shows their results.

import { freshKey } from "../api.js";
import { isHold } from "../decide/model.js";
import { h } from "../dom.js";
import { endOfId, shortText } from "../show/characters.js";
import { createBulk, describeResult, summaryOf } from "./bulk.js";
import { excerpt } from "./rows.js";

/**
 * @param {{items: Object[], action: "accept" | "reject", api: Object, texts: Object, shell: Object, dialog: Function,
 *   announce: Function, done: () => void}} options `done` is called when the dialog closes after requests were sent.
 */
export function askAndDecide({ items, action, api, texts, shell, dialog, announce, done }) {
    const bulk = createBulk({
        items, action, freshKey, changed: () => shown.redraw(),
        decide: (item, value, idempotencyKey) => api.decide(item.runId, item.nodeId, value, { digest: item.digest, interruptId: item.interruptId, idempotencyKey }),
        lookUp: (item) => findInterrupt(api, item),
    });
    const state = { phase: "asking", feedback: "" };

    async function send(how) {
        state.phase = "sending";
        shown.redraw();
        await how(state.feedback.trim());
        state.phase = "over";
        shown.redraw();
        announce(texts.resultsSummary(summaryOf(bulk.results)));
    }

    const shown = dialog({
        title: () => titleOf(state.phase, action, items.length, texts),
        class: "dialog-bulk",
        mayClose: () => state.phase !== "sending",
        closed: () => state.phase !== "asking" && done(),
        describe: (close) => (state.phase === "asking"
            ? asking({ items, action, texts, shell, state, close, send: () => send(bulk.run) })
            : results({ bulk, action, texts, shell, state, close, retry: () => send(bulk.retry) })),
    });
}

function titleOf(phase, action, amount, texts) {
    if (phase === "asking") {
        return texts.confirmTitle[action](amount);
    }
    return phase === "sending" ? texts.resultsTitle[action] : texts.overTitle[action];
}

function asking({ items, action, texts, shell, state, close, send }) {
    const type = (event) => {
        state.feedback = event.target.value;
    };
    return [
        h("p", { key: "lead" }, texts.confirmLead[action]),
        h("ul", { key: "items", class: "bulk-items", tabindex: "0" }, items.map((item) => h("li", { key: item.interruptId }, name(item, texts), excerpt(item)))),
        action === "reject" && h("label", { key: "why", class: "stacked" }, texts.reason,
            h("textarea", { rows: "2", maxlength: "4000", on: { input: type } })),
        h("div", { key: "buttons", class: "actions" },
            h("button", {
                key: "go", type: "button", class: action === "accept" ? "button primary" : "button danger solid", autofocus: true, on: { click: send },
            }, texts.confirm[action](items.length)),
            h("button", { key: "no", type: "button", class: "button", on: { click: close } }, shell.cancel)),
    ];
}

function results({ bulk, action, texts, shell, state, close, retry }) {
    const summary = summaryOf(bulk.results);
    const total = bulk.results.length;
    const isOver = state.phase === "over";
    return [
        h("p", { key: "summary", class: "bulk-summary" }, texts.resultsSummary(summary)),
        !isOver && h("progress", { key: "progress", "aria-label": texts.resultsTitle[action], value: total - summary.left, max: total }),
        h("ul", { key: "results", class: "bulk-items", tabindex: "0" }, bulk.results.map((result) => {
            const { level, text } = describeResult(result, action, texts.results);
            return h("li", { key: result.item.interruptId, class: `result result-${level}` }, name(result.item, texts), h("span", { class: "result-text" }, shortText(text, 300)));
        })),
        h("div", { key: "after", class: "actions" },
            isOver && summary.retryable > 0 && h("button", { key: "again", type: "button", class: "button primary", on: { click: retry } }, texts.retry(summary.retryable)),
            isOver
                ? h("button", { key: "close", type: "button", class: "button", autofocus: true, on: { click: close } }, shell.close)
                : h("button", { key: "stop", type: "button", class: "button", autofocus: true, on: { click: bulk.stop } }, texts.stop)),
    ];
}

function name(item, texts) {
    const about = [isHold(item.workflowId) ? null : shortText(item.workflowId, 60), endOfId(item.runId)].filter(Boolean);
    return h("span", { class: "bulk-name" }, shortText(String(item.title ?? ""), 160) || texts.untitled, h("span", { class: "muted" }, ` · ${about.join(" · ")}`));
}

async function findInterrupt(api, item) {
    const { interrupts } = await api.get(`/v1/runs/${encodeURIComponent(item.runId)}/interrupts`);
    return interrupts.find(({ interruptId }) => interruptId === item.interruptId);
}
