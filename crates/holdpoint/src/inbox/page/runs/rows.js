//! Describes the rows of the list of runs: workflow, status and start. Each row links to the timeline.

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
            // The id is part of the link: several runs can have the same workflow.
            h("a", { class: "item-title", href: href(runId) }, name, " ",
                h("span", { class: "short-id" }, h("span", { class: "visually-hidden" }, `${texts.id} `), endOfId(runId))),
            h("div", { class: "item-meta" }, statusParts(status, errorCode, outcome))),
        h("div", { class: "item-side" }, h("span", { class: "item-age" }, `${texts.started} `, time(createdAt, now))));
}

/**
 * Describes the status, and the error code unless the run was rejected. The run of a hold completes with any
 * decision.
 */
function statusParts(status, code, outcome) {
    const isTimedOut = outcome === "timed_out";
    const isNamed = code && !isTimedOut && !isRejected({ status, error: { code } });
    return [outcomeChip(status, outcome) ?? statusChip(status, code, isTimedOut), isNamed && h("span", { class: "part-text" }, shortText(String(code), CODE_LENGTH))];
}
