//! Describes one event: its content, its changes, and the state of the run after it.

import { h } from "../dom.js";
import { artifact } from "../show/artifact.js";
import { diff } from "../show/diff.js";
import { jsonTree } from "../show/json_tree.js";
import { run as texts } from "../texts/run.js";
import { isSame, nameOf, entryOf } from "../decide/model.js";
import { nodeStatus } from "./head.js";
import { changesIn } from "./model.js";

/**
 * @param {Object} event
 * @param {{log: Object[], state: {isLoading: boolean, found?: Object} | null, fork: unknown}} facts
 */
export function detail(event, { log, state, fork }) {
    return h(
        "div",
        { class: "event-detail" },
        h("section", {}, h("h3", {}, texts.content), artifact(event.payload ?? {})),
        h("section", {}, h("h3", {}, texts.stateAfter), stateOf(event, log, state)),
        fork,
    );
}

function stateOf(event, log, state) {
    if (!state || state.isLoading) {
        return h("p", { class: "nothing", role: "status" }, texts.stateLoading);
    }
    const { at, atSequence, before } = state.found ?? {};
    if (!at) {
        return h("p", { class: "nothing" }, texts.stateFailed);
    }
    const isExact = atSequence === event.sequence;
    const missed = isExact ? [] : changesIn(log.filter(({ sequence }) => sequence > atSequence && sequence <= event.sequence));
    return [
        isExact ? null : h("p", { class: "muted" }, texts.stateEarlier(atSequence)),
        h(
            "p",
            {},
            h("span", { class: "chip" }, entryOf(texts.statuses, at.status) ?? nameOf(at.status)),
            at.currentNodeId ? ` ${nameOf(at.currentNodeId)}` : "",
        ),
        isExact ? changed(before?.variables ?? {}, at.variables ?? {}) : null,
        missed.length > 0
            ? [h("h4", {}, texts.changesSince), artifact(Object.fromEntries(missed.map(({ name, value }) => [name, value])))]
            : null,
        h(
            "details",
            { open: true },
            h("summary", {}, texts.variables),
            Object.keys(at.variables ?? {}).length === 0
                ? h("p", { class: "nothing" }, texts.noVariables)
                : h("div", { class: "untrusted" }, jsonTree(at.variables, { openLevels: 2 })),
        ),
        h("details", {}, h("summary", {}, texts.nodes), nodeTable(at.nodeStates ?? {})),
    ];
}

function changed(before, after) {
    return isSame(before, after)
        ? h("p", { class: "nothing" }, texts.noChanges)
        : [h("h4", {}, texts.changesHere), diff(before, after)];
}

function nodeTable(states) {
    const rows = Object.entries(states)
        .slice(0, 200)
        .map(([id, { status }]) => h("tr", { key: id }, h("th", { scope: "row" }, nameOf(id)), h("td", {}, nodeStatus(status))));
    return h("table", { class: "steps-table" }, h("tbody", {}, rows));
}
