//! The assignees of an interrupt, its rules and its votes.

import { h } from "../dom.js";
import { time } from "../show/time.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { isObject, nameOf, entryOf } from "./model.js";

/**
 * @param {import("./model.js").Interrupt} interrupt
 * @param {{eligibility?: string, now: number, me?: string}} facts
 */
export function people(interrupt, { eligibility, now, me }) {
    const { data, assignees, requiredApprovals = 1 } = interrupt;
    const isSeveral = requiredApprovals > 1;
    const heading =
        assignees.length === 0
            ? isSeveral
                ? texts.severalRequired(requiredApprovals)
                : texts.everyPrincipal
            : isSeveral
              ? texts.severalOf(requiredApprovals)
              : texts.oneOf;
    return h(
        "section",
        { class: "side-part people", "aria-labelledby": "people-heading" },
        h("h2", { id: "people-heading" }, interrupt.kind === "approval" ? texts.approvers : texts.assignees),
        h("p", {}, heading),
        assignees.length > 0
            ? h(
                  "ul",
                  { class: "assignees" },
                  assignees.map((assignee) => h("li", {}, assigneeText(assignee, me))),
              )
            : null,
        rules(data, isSeveral).map((rule) => h("p", { class: "rule" }, rule)),
        eligibility === "unnamed" ? h("p", { class: "rule" }, texts.notListed) : null,
        isSeveral || interrupt.votes.length > 0 ? votes(interrupt, requiredApprovals, now) : null,
        permits(interrupt),
    );
}

/** Describes the effects that a decision permits, and whether the approval fixes their payloads. */
function permits({ permits: permitted }) {
    if (!Array.isArray(permitted) || permitted.length === 0) {
        return null;
    }
    return [
        h("h3", {}, texts.permits),
        h(
            "ul",
            { class: "permits" },
            permitted.map(({ nodeId, typeId, payload, repeat }) =>
                h("li", {}, h("strong", {}, nameOf(nodeId)), ` (${nameOf(typeId)}): ${payload}`, repeat ? texts.permitsRepeat : ""),
            ),
        ),
    ];
}

export function assigneeText(assignee, me) {
    const name = String(assignee);
    if (name.startsWith("role:")) {
        return texts.role(nameOf(name.slice(5)));
    }
    if (name.startsWith("group:")) {
        return texts.group(nameOf(name.slice(6)));
    }
    return name === me ? `${nameOf(name)} (${texts.you.toLowerCase()})` : nameOf(name);
}

function rules(data, isSeveral) {
    const found = [];
    if (data.requiredRole !== undefined) {
        found.push(texts.needsRole(nameOf(data.requiredRole)));
    }
    if (data.requiredScope !== undefined) {
        found.push(texts.needsScope(nameOf(data.requiredScope)));
    }
    if (isObject(data.override) && data.override.requiredRole !== undefined) {
        found.push(texts.overrideRole(nameOf(data.override.requiredRole)));
    }
    if (data.requesterMayNotApprove === true) {
        found.push(texts.requesterMayNot);
    }
    if (data.requesterMayNotApprove === false) {
        found.push(texts.requesterMay);
    }
    if (data.profile === "openwop-interrupt-auth-required") {
        found.push(texts.keyOnly);
    }
    if (isSeveral) {
        found.push(data.rejectionPolicy === "majority" ? texts.majority : texts.veto);
    }
    return found;
}

function votes(interrupt, required, now) {
    const agree = interrupt.votes.filter(
        ({ action, copied }) => !copied && ["accept", "granted", "override", "overridden", "edit-accept"].includes(action),
    ).length;
    return [
        h("h3", {}, texts.votes),
        h(
            "p",
            {},
            h("meter", { min: 0, max: required, value: agree, "aria-label": texts.progress(agree, required) }),
            ` ${texts.progress(agree, required)}`,
        ),
        interrupt.votes.length === 0
            ? h("p", { class: "nothing" }, texts.noVotes)
            : h(
                  "ul",
                  { class: "votes" },
                  interrupt.votes.map((vote) => voteItem(vote, now)),
              ),
    ];
}

function voteItem({ decidedBy, action, at, actedBy, copied }, now) {
    const through = actedBy ? ` ${texts.inName(nameOf(actedBy))}` : "";
    const note = copied ? ` ${texts.copiedVote}` : "";
    return h("li", {}, h("strong", {}, nameOf(decidedBy)), `${through}: ${actionText(action)}, `, time(at, now), note);
}

export function actionText(action) {
    return Object.hasOwn(texts.actions, action) ? texts.actions[action] : nameOf(action);
}

/** Returns an action for a sentence that starts with the name of the principal. */
export function pastActionText(action) {
    return entryOf(texts.pastActions, action) ?? texts.otherAction(actionText(action));
}
