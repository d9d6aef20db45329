//! The data of an interrupt in one form, whether it was read from its run or over a signed link. No elements here.

import { shortText } from "../show/characters.js";
import { canonical } from "../show/digest.js";
import { interrupt as texts } from "../texts/interrupt.js";

const TITLE_CHARACTERS = 300;
const NAME_CHARACTERS = 128;
/** The workflow id of holds. */
const HOLD = "holdpoint-hold";

/**
 * @typedef {{runId: string, nodeId: string, interruptId: string, kind: string, title: string, data: Object, digest?: string,
 *   requestedAt: string, expiresAt?: string, resumeSchema?: Object, status: string, assignees: string[], votes:
 *   Object[], requiredApprovals?: number, asks: Object[], decision?: Object}} Interrupt
 */

/** @returns {Interrupt} an entry of `GET /v1/runs/{runId}/interrupts` */
export function fromRun(entry, runId) {
    return { ...lists(entry), runId, data: asObject(entry.data), title: titleOf(entry) };
}

/** @returns {Interrupt} the response of `GET /v1/interrupts/{token}`; `linkExpiresAt` is the expiry of the link itself */
export function fromLink(entry) {
    const expiresAt = entry.interruptExpiresAt;
    const own = { status: "open", expiresAt, linkExpiresAt: entry.expiresAt, assignees: assigneesIn(asObject(entry.data)) };
    return { ...lists(entry), ...own, data: asObject(entry.data), title: titleOf(entry) };
}

/** Returns the assignees that a gate lists in its data. The response of a link has no other list. */
export function assigneesIn(data) {
    const sets = [data, asObject(data.operatorApproval)];
    const of = (set, member) => (Array.isArray(set[member]) ? set[member] : []);
    const names = (member, prefix = "") => sets.flatMap((set) => of(set, member)).map((name) => `${prefix}${name}`);
    const listed = [...names("approversList"), ...names("approverRoleRefs", "role:"), ...names("approverGroupRefs", "group:")];
    return listed.length > 0 || data.requiredRole === undefined ? listed : [`role:${data.requiredRole}`];
}

/** Returns the named interrupt, otherwise the first open one of the node, otherwise its last one. */
export function pick(interrupts, { nodeId, interruptId }) {
    const named = interruptId && interrupts.find((interrupt) => interrupt.interruptId === interruptId);
    if (named) {
        return named;
    }
    const here = interrupts.filter((interrupt) => interrupt.nodeId === nodeId);
    return here.find((interrupt) => interrupt.status === "open") ?? here.at(-1);
}

/** Returns the other open interrupts of the node. An agent can wait for several tool calls. */
export function siblings(interrupts, interrupt) {
    return interrupts.filter(
        (other) => other.nodeId === interrupt.nodeId && other.status === "open" && other.interruptId !== interrupt.interruptId,
    );
}

/** Returns the previous approval of the same artifact, which was returned with change requests. */
export function previousVersion(interrupts, interrupt) {
    const at = interrupts.findIndex((other) => other.interruptId === interrupt.interruptId);
    const earlier = interrupts.slice(0, Math.max(0, at)).filter((other) => isSameArtifact(other, interrupt));
    return earlier.at(-1);
}

function isSameArtifact(other, interrupt) {
    const areApprovals = other.kind === "approval" && interrupt.kind === "approval";
    return (
        areApprovals &&
        other.nodeId === interrupt.nodeId &&
        other.status !== "open" &&
        other.data.artifactId === interrupt.data.artifactId
    );
}

/** @returns {"approval" | "governed" | "tool" | "toolQuestion" | "clarification" | "custom" | "multi" | "event" |
 *   "conversation" | "confidence" | "unknown"} the variant, which selects the content and the actions. It is more
 *   specific than `kind`. */
export function variantOf({ kind, data }) {
    const isCall = isObject(data.toolCall) || data.artifactType === "tool.call";
    if (kind === "approval") {
        const isGoverned = ["gateId", "requiredRole", "requiredScope"].some((name) => data[name] !== undefined);
        return isGoverned ? "governed" : isCall ? "tool" : "approval";
    }
    if (kind === "custom") {
        return isCall ? "toolQuestion" : data.customKind === "multi" && itemsOf(data) ? "multi" : "custom";
    }
    const variants = { clarification: "clarification", "external-event": "event", "low-confidence": "confidence" };
    return entryOf(variants, kind) ?? (String(kind).startsWith("conversation.") ? "conversation" : "unknown");
}

/** Returns the data to show. The graph of a provider has it in `data.data`, a native node in `data` itself. */
export function shownData(data) {
    const { customKind: _kind, graph: _graph, trouble: _trouble, ...rest } = data;
    const names = Object.keys(rest);
    return names.length === 1 && names[0] === "data" ? rest.data : rest;
}

/** Returns the requests of a `multi` interrupt, or null. */
export function itemsOf(data) {
    const items = shownData(data)?.items;
    const isList =
        Array.isArray(items) && items.length > 0 && items.every((item) => isObject(item) && typeof item.key === "string");
    return isList ? items : null;
}

/** Returns the actions of a gate. A definition may write `edit` for `edit-accept`. */
export function actionsOf({ data }) {
    const actions = Array.isArray(data.actions) ? data.actions : ["accept", "reject"];
    return [...new Set(actions.map((name) => (name === "edit" ? "edit-accept" : name)))];
}

/** Returns the schema of the members that are not in `known`; null if there are none. */
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
 * Returns whether the caller may decide, as far as the page can tell. The server makes the final check.
 * @returns {"may" | "requester" | "voted" | "noScope" | "unnamed"}
 */
export function eligibility(interrupt, session, run) {
    if (session?.scopes && !session.scopes.includes("approvals:respond")) {
        return "noScope";
    }
    const me = session?.principal;
    const list = (names) => (Array.isArray(names) ? names : []);
    const requesters = [run?.owner?.principal, ...list(run?.forkedBy), ...list(run?.requestedBy)];
    if (me && interrupt.data.requesterMayNotApprove === true && requesters.includes(me)) {
        return "requester";
    }
    if (me && interrupt.votes.some((vote) => vote.decidedBy === me)) {
        return "voted";
    }
    return me && interrupt.assignees.length > 0 && !interrupt.assignees.includes(me) ? "unnamed" : "may";
}

/** Returns the principal and the action of a decision; the action is `answered` if the answer has none. */
export function decisionOf(interrupt) {
    const { decision, status } = interrupt;
    if (!decision || status === "timed-out") {
        return null;
    }
    const value = asObject(decision.value);
    // The action of the answer is more specific than the decision: “edit-accept” instead of “granted”.
    const named =
        decision.decision === "overridden"
            ? "overridden"
            : (value.action ?? decision.action ?? value.decision ?? decision.decision);
    const action = named ?? "answered";
    return {
        by: nameOf(value.decidedBy ?? decision.by),
        action: String(action),
        at: decision.at,
        value: decision.value,
        actedBy: value.actedBy,
        via: decision.via,
        clientMetadata: decision.clientMetadata,
    };
}

/** Returns whether a workflow id is that of a hold. */
export function isHold(workflowId) {
    return workflowId === HOLD;
}

/** Returns the entry of a table for an untrusted name. Inherited names such as `constructor` have no entry. */
export function entryOf(table, name) {
    return typeof name === "string" && Object.hasOwn(table, name) ? table[name] : undefined;
}

export function isSame(a, b) {
    return canonical(a ?? null) === canonical(b ?? null);
}

export function nameOf(name) {
    return shortText(String(name ?? ""), NAME_CHARACTERS);
}

/**
 * Returns the headline of an interrupt. For a custom interrupt its message takes precedence over the name of its
 * kind.
 */
export function headline(interrupt) {
    const { data, kind } = interrupt;
    if (kind === "custom" && data.customKind === "multi") {
        return texts.kinds.multi;
    }
    const headlines = {
        "low-confidence": texts.lowConfidence(nameOf(data.agentId)),
        "external-event": texts.waitsForNamed(nameOf(data.eventType)),
    };
    if (Object.hasOwn(headlines, kind)) {
        return headlines[kind];
    }
    const shown = kind === "custom" ? shownData(data) : {};
    const words = [data.message, shown?.message, shown?.title, shown?.question].find(
        (text) => typeof text === "string" && text.trim() !== "",
    );
    const named =
        kind === "custom"
            ? (words ??
              String(interrupt.title)
                  .replace(/[_.-]+/g, " ")
                  .replace(/^./, (first) => first.toUpperCase()))
            : interrupt.title;
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
