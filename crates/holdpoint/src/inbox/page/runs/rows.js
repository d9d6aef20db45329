//! Runs as rows: of what, how it stands, when it began. Each leads to its timeline.

import { h } from "../dom.js";
import { isHold } from "../decide/model.js";
import { endOfId, shortText, visible } from "../show/characters.js";
import { time } from "../show/time.js";
import { runs as texts } from "../texts/runs.js";
import { isRejected, statusChip } from "../timeline/head.js";

const NAME_LENGTH = 120;
const CODE_LENGTH = 60;

/** @param {{now: number, href: (runId: string) => string}} around */
export function rows({ items, isLoading }, around) {
    return h("ol", { key: "runs", class: "item-list", role: "list", "aria-busy": isLoading ? "true" : undefined },
        items.map((run) => row(run, around)));
}

function row({ runId, workflowId, status, createdAt, errorCode, outcome }, { now, href }) {
    const name = isHold(workflowId) ? texts.hold : visible(shortText(String(workflowId ?? ""), NAME_LENGTH));
    return h("li", { key: runId, class: "item item-run", "data-item": runId },
        h("div", { class: "item-main" },
            // The id is part of the link: many runs are of the same workflow.
            h("a", { class: "item-title", href: href(runId) }, name, " ",
                h("span", { class: "short-id" }, h("span", { class: "visually-hidden" }, `${texts.id} `), endOfId(runId))),
            h("div", { class: "item-meta" }, standing(status, errorCode, outcome === "timed_out"))),
        h("div", { class: "item-side" }, h("span", { class: "item-age" }, `${texts.began} `, time(createdAt, now))));
}

/** How it stands, and why it failed where nobody has simply said no. */
function standing(status, code, isTimedOut) {
    const isNamed = code && !isTimedOut && !isRejected({ status, error: { code } });
    return [statusChip(status, code, isTimedOut), isNamed && h("span", { class: "part-text" }, shortText(String(code), CODE_LENGTH))];
}
