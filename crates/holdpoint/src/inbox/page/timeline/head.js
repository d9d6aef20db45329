//! Describes the head of a timeline: the status and the facts of the run.

import { h } from "../dom.js";
import { shortText, visible } from "../show/characters.js";
import { artifact } from "../show/artifact.js";
import { duration, instant, time } from "../show/time.js";
import { graph as graphTexts } from "../texts/graph.js";
import { run as texts } from "../texts/run.js";
import { decisionOf, headline, isHold, nameOf, entryOf } from "../decide/model.js";
import { isFinished } from "./model.js";

const LEVELS = {
    completed: "chip-good",
    failed: "chip-bad",
    cancelled: "",
    paused: "chip-warn",
    "waiting-approval": "chip-warn",
    "waiting-input": "chip-warn",
    "waiting-external": "chip-warn",
};

/** @param {{now: number, link: (runId: string) => string, names?: Map<string, string>, interrupts?: Object[]}} facts */
export function head(run, { now, link, names = new Map(), interrupts = [] }) {
    return h(
        "header",
        { class: "run-head" },
        h("p", { class: "interrupt-kind" }, statusChip(run.status, run.error?.code, isTimedOut(run))),
        h("h1", { dir: "auto" }, runTitle(run, interrupts)),
        h(
            "dl",
            { class: "fact-line" },
            factsOf(run, now, link).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
        ),
        isRejected(run) ? rejection(run, { now, names, interrupts }) : failure(run),
    );
}

/** Returns the title of a run: its workflow, or the headline of the hold. */
export function runTitle({ workflowId }, interrupts) {
    if (!isHold(workflowId)) {
        return texts.title(nameOf(workflowId));
    }
    return interrupts.length > 0 ? texts.holdTitled(headline(interrupts[0])) : texts.hold;
}

/**
 * Describes the status of a run. A run that failed because of a rejection or a timeout is shown as rejected or timed
 * out.
 */
export function statusChip(status, code, isTimedOut = false) {
    if (isTimedOut) {
        return h("span", { class: "chip" }, texts.timedOut);
    }
    if (isRejected({ status, error: { code } })) {
        return h("span", { class: "chip" }, texts.rejected);
    }
    const level = entryOf(LEVELS, status) ?? "";
    return h("span", { class: `chip ${level}`.trim() }, entryOf(texts.statuses, status) ?? nameOf(status));
}

/** Describes the outcome of a completed hold; null for other runs. */
export function outcomeChip(status, outcome) {
    const text = status === "completed" ? entryOf(texts.holdOutcomes, outcome) : undefined;
    return text ? h("span", { class: outcome === "approved" ? "chip chip-good" : "chip" }, text) : null;
}

function factsOf(run, now, link) {
    const end = isFinished(run.status) ? instant(run.completedAt) : now;
    const facts = [
        [texts.id, h("code", { class: "run-id" }, nameOf(run.runId))],
        [texts.started, time(run.startedAt, now)],
        [isFinished(run.status) ? texts.took : texts.runsFor, duration(end - instant(run.startedAt))],
    ];
    const add = (name, value) => value && facts.push([name, value]);
    add(isHold(run.workflowId) ? texts.askedBy : texts.startedBy, run.owner?.principal && nameOf(run.owner.principal));
    add(
        texts.pausedBy,
        run.pausedBy && [nameOf(run.pausedBy), run.pauseReason ? `: ${shortText(String(run.pauseReason), 200)}` : ""],
    );
    add(texts.parent, run.parentRunId && runLink(run.parentRunId, link));
    add(texts.forkedFrom, run.sourceRunId && [runLink(run.sourceRunId, link), ` ${texts.forkedAt(run.fromSeq ?? 0)}`]);
    add(texts.tags, run.tags?.length > 0 && run.tags.map(nameOf).join(", "));
    return facts;
}

export function runLink(runId, link) {
    return h("a", { href: link(runId) }, nameOf(runId));
}

/** Returns whether a run ended because of a rejection, which is not an error. */
export function isRejected({ status, error }) {
    return status === "failed" && error?.code === "approval_rejected";
}

/** Returns whether the run failed because a deadline passed without an answer. */
function isTimedOut({ status, error }) {
    return status === "failed" && error?.details?.reason === "timeout";
}

/** Returns the step at which a run was rejected; undefined for other runs. */
export function rejectedStep(run) {
    return isRejected(run) ? run.error.details?.failedNodeId : undefined;
}

/** Describes the step, the principal and the reason of a rejection; without a decision, the message of the server. */
function rejection({ error }, { now, names, interrupts }) {
    const nodeId = error.details?.failedNodeId;
    const interrupt = interrupts.findLast((one) => one.nodeId === nodeId && one.status !== "open");
    const decision = interrupt && decisionOf(interrupt);
    const isLate = error.details?.reason === "timeout";
    const [at, somewhere] = isLate
        ? [texts.timedOutAt, texts.timedOutSomewhere]
        : [texts.rejectedAt, texts.rejectedSomewhere];
    const step = nodeId ? at(nameOf(names.get(nodeId) ?? nodeId)) : somewhere;
    const why = decision ? (decision.value?.feedback ?? decision.value?.reason) : error.message;
    return h(
        "div",
        { class: "notice" },
        h("p", {}, h("strong", {}, step), decision ? [` ${texts.by(decision.by)} `, time(decision.at, now), "."] : "."),
        typeof why === "string" && why !== "" ? h("p", { class: "untrusted" }, visible(shortText(why, 2000))) : null,
    );
}

function failure({ error }) {
    if (!error) {
        return null;
    }
    const node = error.details?.failedNodeId;
    return h(
        "div",
        { class: "notice notice-bad" },
        h(
            "p",
            {},
            h("strong", {}, `${texts.error}${node ? ` ${texts.failedAt(nameOf(node))}` : ""}: `),
            h("code", {}, nameOf(error.code)),
        ),
        h("p", { class: "untrusted" }, visible(String(error.message ?? "").slice(0, 2000))),
    );
}

/** The longest list of child runs or of their interrupts. */
const SHOWN_MAX = 100;

/** Describes the open interrupts of the runs below a run, with links to their pages; null if there are none. */
export function childInterrupts(run, href) {
    const open = run.childInterrupts ?? [];
    if (open.length === 0) {
        return null;
    }
    const item = (interrupt) => {
        const workflow = isHold(interrupt.workflowId) ? texts.hold : nameOf(interrupt.workflowId);
        const path = interrupt.path.map(({ nodeId }) => nameOf(nodeId)).join(" › ");
        return h(
            "li",
            { key: interrupt.interruptId },
            h("a", { href: href(interrupt) }, texts.childInterrupt(workflow, nameOf(interrupt.nodeId))),
            h("span", { class: "muted" }, ` ${texts.calledBy(path)}`),
        );
    };
    return h(
        "section",
        { class: "card", "aria-labelledby": "below-heading" },
        h("h2", { id: "below-heading" }, texts.childInterrupts),
        h("ul", {}, open.slice(0, SHOWN_MAX).map(item)),
        open.length > SHOWN_MAX && h("p", { class: "muted" }, texts.moreChildInterrupts(open.length - SHOWN_MAX)),
    );
}

export function children(run, link) {
    const runs = run.childRuns ?? [];
    if (runs.length === 0) {
        return null;
    }
    const items = runs
        .slice(0, SHOWN_MAX)
        .map((child) =>
            h(
                "li",
                { key: child.runId },
                runLink(child.runId, link),
                ` ${isHold(child.workflowId) ? texts.hold : nameOf(child.workflowId)}: ${entryOf(texts.statuses, child.status) ?? nameOf(child.status)}`,
            ),
        );
    return h("section", { class: "card" }, h("h2", {}, texts.children), h("ul", {}, items));
}

export function inputs(run) {
    const isEmpty = Object.keys(run.inputs ?? {}).length === 0;
    return isEmpty ? null : h("details", { class: "card" }, h("summary", {}, texts.inputs), artifact(run.inputs));
}

export function nodeStatus(status) {
    return Object.hasOwn(graphTexts.statuses, status)
        ? `${graphTexts.signs[status]} ${graphTexts.statuses[status]}`
        : nameOf(status);
}
