//! Who decides, who has voted, and whether you are among them.

import { h } from "../dom.js";
import { time } from "../show/time.js";
import { pause as texts } from "../texts/pause.js";
import { isObject, nameOf, ofTable } from "./model.js";

/**
 * @param {import("./model.js").Pause} pause
 * @param {{standing?: string, now: number, me?: string}} facts
 */
export function people(pause, { standing, now, me }) {
    const { data, assignees, requiredApprovals = 1 } = pause;
    const isSeveral = requiredApprovals > 1;
    const heading =
        assignees.length === 0
            ? isSeveral
                ? texts.severalAnybody(requiredApprovals)
                : texts.anybody
            : isSeveral
              ? texts.severalOf(requiredApprovals)
              : texts.oneOf;
    return h(
        "section",
        { class: "side-part people", "aria-labelledby": "people-heading" },
        h("h2", { id: "people-heading" }, texts.people),
        h("p", {}, heading),
        assignees.length > 0
            ? h(
                  "ul",
                  { class: "assignees" },
                  assignees.map((assignee) => h("li", {}, assigneeText(assignee, me))),
              )
            : null,
        rules(data, isSeveral).map((rule) => h("p", { class: "rule" }, rule)),
        standing === "unnamed" ? h("p", { class: "rule" }, texts.maybeYou) : null,
        isSeveral || pause.votes.length > 0 ? votes(pause, requiredApprovals, now) : null,
        permits(pause),
    );
}

/** The effects that a decision permits, and whether the approval fixes what they send. */
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

function votes(pause, required, now) {
    const agree = pause.votes.filter(
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
        pause.votes.length === 0
            ? h("p", { class: "nothing" }, texts.noVotes)
            : h(
                  "ul",
                  { class: "votes" },
                  pause.votes.map((vote) => voteItem(vote, now)),
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

/** What somebody did, for a sentence that begins with their name. */
export function deedText(action) {
    return ofTable(texts.deeds, action) ?? texts.otherDeed(actionText(action));
}
