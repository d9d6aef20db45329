//! Runs as rows: of what, how it stands, when it began. Each leads to its timeline.

import { h } from "../dom.js";
import { isHold } from "../decide/model.js";
import { endOfId, shortText, visible } from "../show/characters.js";
import { time } from "../show/time.js";
import { runs as texts } from "../texts/runs.js";
import { isRejected, outcomeChip, statusChip } from "../timeline/head.js";

const NAME_LENGTH = 120;
const CODE_LENGTH = 60;

/** @param {{now: number, href: (runId: string) => string}} around */
export function rows({ items, isLoading }, around) {
    return h("ol", { key: "runs", class: "item-list", role: "list", "aria-busy": isLoading ? "true" : undefined },
        items.map((run) => row(run, around)));
}

function row({ runId, workflowId, status, createdAt, errorCode, outcome, title }, { now, href }) {
    const called = isHold(workflowId) ? title ?? texts.hold : workflowId ?? "";
    const name = visible(shortText(String(called), NAME_LENGTH));
    return h("li", { key: runId, class: "item item-run", "data-item": runId },
        h("div", { class: "item-main" },
            // The id is part of the link: many runs are of the same workflow.
            h("a", { class: "item-title", href: href(runId) }, name, " ",
                h("span", { class: "short-id" }, h("span", { class: "visually-hidden" }, `${texts.id} `), endOfId(runId))),
            h("div", { class: "item-meta" }, standing(status, errorCode, outcome))),
        h("div", { class: "item-side" }, h("span", { class: "item-age" }, `${texts.began} `, time(createdAt, now))));
}

/** How it stands, and why it failed where nobody has simply said no. The run of a hold completes whatever was decided. */
function standing(status, code, outcome) {
    const isTimedOut = outcome === "timed_out";
    const isNamed = code && !isTimedOut && !isRejected({ status, error: { code } });
    return [outcomeChip(status, outcome) ?? statusChip(status, code, isTimedOut), isNamed && h("span", { class: "part-text" }, shortText(String(code), CODE_LENGTH))];
}
