//! Describes the steps of a run: a row for each visit, with a bar for its time.

import { h } from "../dom.js";
import { duration, instant, time } from "../show/time.js";
import { run as texts } from "../texts/run.js";
import { nameOf } from "../decide/model.js";
import { nodeStatus } from "./head.js";

const WIDTH = 240;
const SHOWN_MAX = 200;
const LEAST_WIDTH = 3;

/**
 * @param {ReturnType<import("./model.js").visitsOf>} visits
 * @param {{run: Object, now: number, nodeId: string | null, select: (nodeId: string | null) => void}} facts
 */
export function steps(visits, { run, now, nodeId, select, names }) {
    if (visits.length === 0) {
        return null;
    }
    const shown = visits.slice(-SHOWN_MAX);
    const start = instant(run.startedAt);
    const end = Math.max(start + 1, run.completedAt ? instant(run.completedAt) : now);
    const row = (visit) => stepRow(visit, { start, end, now, nodeId, select, names });
    return h(
        "section",
        { class: "card", "aria-labelledby": "steps-heading" },
        h("h2", { id: "steps-heading" }, texts.steps),
        h(
            "div",
            { class: "table-scroll", tabindex: 0, role: "group", "aria-labelledby": "steps-heading" },
            h(
                "table",
                { class: "steps-table" },
                h(
                    "thead",
                    {},
                    h(
                        "tr",
                        {},
                        [texts.step, texts.state, texts.started, texts.duration, texts.time].map((name) =>
                            h("th", { scope: "col" }, name),
                        ),
                    ),
                ),
                h("tbody", {}, shown.map(row)),
            ),
        ),
    );
}

function stepRow(visit, { start, end, now, nodeId, select, names }) {
    const isChosen = nodeId === visit.nodeId;
    const last = visit.end ?? now;
    const waited = visit.waited_ms + (visit.since === null ? 0 : Math.max(0, now - visit.since));
    const length = last - visit.start;
    const toggle = () => select(isChosen ? null : visit.nodeId);
    return h(
        "tr",
        { key: `${visit.nodeId} ${visit.visit}`, class: isChosen ? "chosen" : undefined },
        h(
            "th",
            { scope: "row" },
            h(
                "button",
                { type: "button", class: "link", "aria-pressed": isChosen, on: { click: toggle } },
                nameOf(names.get(visit.nodeId) ?? visit.nodeId),
            ),
            visit.visit > 1 ? ` ${texts.visit(visit.visit)}` : "",
        ),
        h("td", {}, nodeStatus(visit.status)),
        h("td", {}, time(visit.start, now)),
        h(
            "td",
            {},
            durationText(length),
            waited > 0 && length > 0 ? h("span", { class: "muted" }, `, ${texts.waited(durationText(waited))}`) : null,
        ),
        h("td", {}, bar(visit, start, end, last)),
    );
}

/** Returns a duration, below one second in milliseconds: most steps take less than a second. */
export function durationText(ms) {
    return ms < 1000 ? `${Math.max(0, Math.round(ms))} ms` : duration(ms);
}

function bar(visit, start, end, last) {
    const scale = WIDTH / (end - start);
    const x = Math.min(WIDTH - LEAST_WIDTH, Math.max(0, (visit.start - start) * scale));
    const width = Math.min(WIDTH - x, Math.max(LEAST_WIDTH, (last - visit.start) * scale));
    return h(
        "svg",
        {
            class: `span span-${visit.status}`,
            viewBox: `0 0 ${WIDTH} 14`,
            width: WIDTH,
            height: 14,
            "aria-hidden": true,
            focusable: "false",
        },
        h("rect", { class: "span-track", x: 0, y: 6, width: WIDTH, height: 2 }),
        h("rect", { class: "span-value", x: x.toFixed(1), y: 2, width: width.toFixed(1), height: 10, rx: 3 }),
    );
}
