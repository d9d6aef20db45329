//! What is known of a pause, in one form, wherever it was read: from its run or over a signed link. No elements here.

import { shortText } from "../show/characters.js";
import { canonical } from "../show/digest.js";
import { pause as texts } from "../texts/pause.js";

const TITLE_CHARACTERS = 300;
const NAME_CHARACTERS = 128;
/** What questions of programs have in the place of a workflow. */
const HOLD = "holdpoint-hold";

/**
 * @typedef {{runId: string, nodeId: string, interruptId: string, kind: string, title: string, data: Object, digest?: string,
 *   requestedAt: string, expiresAt?: string, resumeSchema?: Object, status: string, assignees: string[], votes: Object[],
 *   requiredApprovals?: number, asks: Object[], decision?: Object}} Pause
 */

/** @returns {Pause} an entry of `GET /v1/runs/{runId}/interrupts` */
export function fromRun(entry, runId) {
    return { ...lists(entry), runId, data: asObject(entry.data), title: titleOf(entry) };
}

/** @returns {Pause} what `GET /v1/interrupts/{token}` tells; `linkExpiresAt` is the end of the link itself */
export function fromLink(entry) {
    const expiresAt = entry.interruptExpiresAt;
    const own = { status: "open", expiresAt, linkExpiresAt: entry.expiresAt, assignees: listedIn(asObject(entry.data)) };
    return { ...lists(entry), ...own, data: asObject(entry.data), title: titleOf(entry) };
}

/** Whom a gate lists, in one form. A link does not tell it, but what it shows does. */
export function listedIn(data) {
    const sets = [data, asObject(data.operatorApproval)];
    const of = (set, member) => (Array.isArray(set[member]) ? set[member] : []);
    const names = (member, prefix = "") => sets.flatMap((set) => of(set, member)).map((name) => `${prefix}${name}`);
    const listed = [...names("approversList"), ...names("approverRoleRefs", "role:"), ...names("approverGroupRefs", "group:")];
    return listed.length > 0 || data.requiredRole === undefined ? listed : [`role:${data.requiredRole}`];
}

/** Which question is meant: the one that is named, else the first that waits at the node, else its last. */
export function pick(pauses, { nodeId, interruptId }) {
    const named = interruptId && pauses.find((pause) => pause.interruptId === interruptId);
    if (named) {
        return named;
    }
    const here = pauses.filter((pause) => pause.nodeId === nodeId);
    return here.find((pause) => pause.status === "open") ?? here.at(-1);
}

/** Others that wait at the same node: an agent may ask about several calls at once. */
export function siblings(pauses, pause) {
    return pauses.filter(
        (other) => other.nodeId === pause.nodeId && other.status === "open" && other.interruptId !== pause.interruptId,
    );
}

/** The version of the same artifact that somebody wanted to have changed, before this one. */
export function versionBefore(pauses, pause) {
    const at = pauses.findIndex((other) => other.interruptId === pause.interruptId);
    const earlier = pauses.slice(0, Math.max(0, at)).filter((other) => isSameArtifact(other, pause));
    return earlier.at(-1);
}

function isSameArtifact(other, pause) {
    const areApprovals = other.kind === "approval" && pause.kind === "approval";
    return (
        areApprovals &&
        other.nodeId === pause.nodeId &&
        other.status !== "open" &&
        other.data.artifactId === pause.data.artifactId
    );
}

/** @returns {"approval" | "governed" | "tool" | "toolQuestion" | "clarification" | "custom" | "multi" | "event" |
 *   "conversation" | "confidence" | "unknown"} what people have to do with it, which is more than its `kind` says */
export function sortOf({ kind, data }) {
    const isCall = isObject(data.toolCall) || data.artifactType === "tool.call";
    if (kind === "approval") {
        const isGoverned = ["gateId", "requiredRole", "requiredScope"].some((name) => data[name] !== undefined);
        return isGoverned ? "governed" : isCall ? "tool" : "approval";
    }
    if (kind === "custom") {
        return isCall ? "toolQuestion" : data.customKind === "multi" && itemsOf(data) ? "multi" : "custom";
    }
    const sorts = { clarification: "clarification", "external-event": "event", "low-confidence": "confidence" };
    return ofTable(sorts, kind) ?? (String(kind).startsWith("conversation.") ? "conversation" : "unknown");
}

/** What a provider's graph shows stands in `data.data`; a node of our own may say it directly. */
export function shownData(data) {
    const { customKind: _kind, graph: _graph, trouble: _trouble, ...rest } = data;
    const names = Object.keys(rest);
    return names.length === 1 && names[0] === "data" ? rest.data : rest;
}

/** The questions of a `multi` pause. */
export function itemsOf(data) {
    const items = shownData(data)?.items;
    const isList =
        Array.isArray(items) && items.length > 0 && items.every((item) => isObject(item) && typeof item.key === "string");
    return isList ? items : null;
}

/** Which actions a gate offers. A definition may write `edit` for `edit-accept`. */
export function actionsOf({ data }) {
    const actions = Array.isArray(data.actions) ? data.actions : ["accept", "reject"];
    return [...new Set(actions.map((name) => (name === "edit" ? "edit-accept" : name)))];
}

/** The members that a schema wants beside those we ask for ourselves; null where there are none. */
export function furtherMembers(schema, known) {
    const properties = isObject(schema?.properties) ? schema.properties : {};
    const names = Object.keys(properties).filter((name) => !known.includes(name));
    if (names.length === 0) {
        return null;
    }
    const required = Array.isArray(schema.required) ? schema.required.filter((name) => names.includes(name)) : [];
    const chosen = Object.fromEntries(names.map((name) => [name, properties[name]]));
    return { type: "object", properties: chosen, required, ...(schema.$defs ? { $defs: schema.$defs } : {}) };
}

/**
 * Whether the one who is signed in may decide, as far as this page can tell. The server judges.
 * @returns {"may" | "requester" | "voted" | "noScope" | "unnamed"}
 */
export function standing(pause, session, run) {
    if (session?.scopes && !session.scopes.includes("approvals:respond")) {
        return "noScope";
    }
    const me = session?.principal;
    const list = (names) => (Array.isArray(names) ? names : []);
    const requesters = [run?.owner?.principal, ...list(run?.forkedBy), ...list(run?.requestedBy)];
    if (me && pause.data.requesterMayNotApprove === true && requesters.includes(me)) {
        return "requester";
    }
    if (me && pause.votes.some((vote) => vote.decidedBy === me)) {
        return "voted";
    }
    return me && pause.assignees.length > 0 && !pause.assignees.includes(me) ? "unnamed" : "may";
}

/** Who decided, and what: the action of an approval, or that there was an answer. */
export function decisionOf(pause) {
    const { decision, status } = pause;
    if (!decision || status === "timed-out") {
        return null;
    }
    const value = asObject(decision.value);
    // What somebody said rather than what it counted as: “edited and accepted” says more than “granted”.
    const said =
        decision.decision === "overridden"
            ? "overridden"
            : (value.action ?? decision.action ?? value.decision ?? decision.decision);
    const action = said ?? "answered";
    return {
        by: nameOf(value.decidedBy ?? decision.by),
        action: String(action),
        at: decision.at,
        value: decision.value,
        actedBy: value.actedBy,
        via: decision.via,
    };
}

/** Whether something was asked without a workflow: by a script, or by a program over HTTP. */
export function isHold(workflowId) {
    return workflowId === HOLD;
}

/** What a table of ours says about a name of somebody else's; `constructor` and the like are in no table. */
export function ofTable(table, name) {
    return typeof name === "string" && Object.hasOwn(table, name) ? table[name] : undefined;
}

export function isSame(a, b) {
    return canonical(a ?? null) === canonical(b ?? null);
}

export function nameOf(name) {
    return shortText(String(name ?? ""), NAME_CHARACTERS);
}

/** What a pause is called: for a question in somebody's own words, those rather than the name of its kind. */
export function headline(pause) {
    const { data, kind } = pause;
    if (kind === "custom" && data.customKind === "multi") {
        return texts.kinds.multi;
    }
    const told = {
        "low-confidence": texts.notSure(nameOf(data.agentId)),
        "external-event": texts.waitsForNamed(nameOf(data.eventType)),
    };
    if (Object.hasOwn(told, kind)) {
        return told[kind];
    }
    const shown = kind === "custom" ? shownData(data) : {};
    const words = [data.message, shown?.message, shown?.title, shown?.question].find(
        (text) => typeof text === "string" && text.trim() !== "",
    );
    const named =
        kind === "custom"
            ? (words ??
              String(pause.title)
                  .replace(/[_.-]+/g, " ")
                  .replace(/^./, (first) => first.toUpperCase()))
            : pause.title;
    const call = kind === "approval" ? undefined : data.toolCall?.name;
    return titleText(call && !words ? `${call}: ${named}` : named) || texts.untitled;
}

export function titleText(text) {
    return shortText(String(text ?? ""), TITLE_CHARACTERS);
}

export function isObject(value) {
    return value !== null && typeof value === "object" && !Array.isArray(value);
}

function asObject(value) {
    return isObject(value) ? value : {};
}

function lists(entry) {
    const list = (name) => (Array.isArray(entry[name]) ? entry[name] : []);
    return { ...entry, assignees: list("assignees"), votes: list("votes"), asks: list("asks") };
}

function titleOf(entry) {
    return typeof entry.title === "string" && entry.title.trim() !== ""
        ? entry.title
        : String(entry.data?.title ?? entry.nodeId ?? "");
}
