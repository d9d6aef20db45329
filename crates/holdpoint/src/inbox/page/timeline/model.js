//! The model of a timeline: titles and summaries of events, pages of the log, and the visits of the nodes. No elements
//! here.

import { shortText } from "../show/characters.js";
import { instant } from "../show/time.js";
import { run as texts } from "../texts/run.js";

const WORDS = 160;
export const PAGE = 50;

/** Returns the category of an event type. */
export function categoryOf(type) {
    if (/^run\./.test(type) || type === "cap.breached" || type === "replay.diverged") {
        return "run";
    }
    if (/^(interrupt|approval|clarification|conversation|authorization)\.|^holdpoint\.(vote|ask)\.|^agent\.decided$/.test(type)) {
        return "decision";
    }
    if (/^holdpoint\.(step|tool|model|message|child)\.|^agent\.|^ai\.|^node\.dispatched$/.test(type)) {
        return "effect";
    }
    return /^(variable|channel|artifact)\./.test(type) ? "data" : "node";
}

export function titleOf(type) {
    return Object.hasOwn(texts.types, type) ? texts.types[type] : shortText(String(type), WORDS);
}

/** Returns a one-line summary of an event. */
export function eventSummary({ type, payload = {} }) {
    const summaries = {
        "run.started": () => [payload.owner?.principal],
        "run.failed": () => [payload.error?.code, payload.error?.message],
        "run.cancelled": () => [payload.cancelledBy, payload.reason],
        "run.paused": () => [payload.pausedBy, payload.reason],
        "run.resumed": () => [payload.resumedBy],
        "node.started": () => [payload.typeId],
        "node.failed": () => [payload.error?.code, payload.error?.message],
        "node.skipped": () => [payload.reason],
        "node.retried": () => [payload.lastError?.code],
        "node.dispatched": () => [payload.childWorkflowId],
        "node.suspended": () => [payload.kind, payload.eventType ?? payload.customKind],
        "interrupt.requested": () => [
            payload.data?.title ?? payload.data?.prompt ?? payload.data?.customKind ?? payload.data?.eventType ?? payload.kind,
        ],
        "interrupt.resolved": () => [payload.resolvedBy, payload.action ?? payload.decision],
        "approval.received": () => [payload.decidedBy, payload.action],
        "approval.granted": () => [payload.principal],
        "approval.rejected": () => [payload.principal, payload.reason],
        "approval.overridden": () => [payload.principal, payload.reason],
        "authorization.decided": () => [payload.principal, payload.reason],
        "clarification.resolved": () => [payload.answeredBy],
        "agent.decided": () => [payload.agentId, payload.confidence === undefined ? undefined : String(payload.confidence)],
        "agent.toolCalled": () => [payload.toolName, payload.permission],
        "agent.toolReturned": () => [payload.toolName],
        "holdpoint.tool.suspended": () => [payload.toolName],
        "holdpoint.model.replied": () => [payload.message?.content],
        "holdpoint.message.added": () => [payload.message?.by, payload.message?.content],
        "holdpoint.vote.cast": () => [payload.decidedBy, payload.action],
        "holdpoint.vote.repeated": () => [payload.decidedBy, payload.action],
        "holdpoint.ask.raised": () => [payload.askedBy, payload.question],
        "holdpoint.ask.answered": () => [payload.answeredBy, payload.answer],
        "artifact.created": () => [payload.artifactType],
        "variable.changed": () => [payload.name],
        "channel.written": () => [payload.channel, payload.reducer],
        "ai.message.chunk": () => [payload.chunk],
        "holdpoint.reasoning.chunk": () => [payload.chunk],
        "holdpoint.tool.chunk": () => [payload.toolName, payload.chunk],
        "holdpoint.activity.reported": () => [payload.activityType],
        "cap.breached": () => [payload.kind],
        "holdpoint.step.recorded": () => [payload.step],
        "holdpoint.child.changed": () => [payload.status],
        "holdpoint.child.ended": () => [payload.status],
    };
    const parts = Object.hasOwn(summaries, type) ? summaries[type]() : [];
    return shortText(parts.filter((part) => typeof part === "string" && part !== "").join(": "), WORDS);
}

/** Returns the events of a category and of a node. */
export function filterEvents(events, { filter = "all", nodeId = null }) {
    return events.filter(
        (event) => (filter === "all" || categoryOf(event.type) === filter) && (nodeId === null || event.nodeId === nodeId),
    );
}

/** Returns one page of a list, by default the last. */
export function pageOf(list, page) {
    const pages = Math.max(1, Math.ceil(list.length / PAGE));
    const number = Math.min(pages, Math.max(1, page ?? pages));
    return { pages, page: number, entries: list.slice((number - 1) * PAGE, number * PAGE) };
}

/**
 * Returns the visits of nodes, each with its start, its end and the time it waited.
 * @returns {{nodeId: string, visit: number, start: number, end: number | null, status: string, waited_ms: number}[]}
 */
export function visitsOf(events) {
    const visits = [];
    const open = new Map();
    const counts = new Map();
    const ends = { "node.completed": "completed", "node.failed": "failed" };
    for (const { type, nodeId, timestamp } of events) {
        const at = instant(timestamp);
        if (type === "node.started") {
            counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
            const visit = {
                nodeId,
                visit: counts.get(nodeId),
                start: at,
                end: null,
                status: "running",
                waited_ms: 0,
                since: null,
            };
            open.set(nodeId, visit);
            visits.push(visit);
            continue;
        }
        const visit = open.get(nodeId);
        if (!visit) {
            continue;
        }
        if (type === "node.suspended" || type === "holdpoint.sleep.started" || type === "holdpoint.node.awaiting") {
            visit.since ??= at;
            visit.status = { "node.suspended": "suspended", "holdpoint.sleep.started": "sleeping" }[type] ?? "awaiting";
        } else if (type === "node.resumed" || type === "holdpoint.sleep.ended") {
            stopWaiting(visit, at, "running");
        } else if (Object.hasOwn(ends, type)) {
            stopWaiting(visit, at, ends[type]);
            visit.end = at;
            open.delete(nodeId);
        }
    }
    return visits;
}

function stopWaiting(visit, at, status) {
    if (visit.since !== null) {
        visit.waited_ms += Math.max(0, at - visit.since);
        visit.since = null;
    }
    visit.status = status;
}

/** Returns the changes of variables and channels in a part of the log. */
export function changesIn(events) {
    const changes = [];
    for (const { type, payload = {}, sequence } of events) {
        if (type === "variable.changed") {
            changes.push({ sequence, name: payload.name, value: payload.next });
        } else if (type === "node.completed") {
            changes.push(...Object.entries(payload.outputs ?? {}).map(([name, value]) => ({ sequence, name, value })));
        } else if (type === "channel.written") {
            changes.push({ sequence, name: payload.channel, value: payload.value });
        }
    }
    return changes;
}

export function isFinished(status) {
    return ["completed", "failed", "cancelled"].includes(status);
}
