//! The empty list: the reason, and how items get there.

import { h } from "../dom.js";
import { program } from "../views/welcome.js";
import { narrowing, withoutFilters } from "./query.js";

export function empty(state, { texts, filter, previous, runs, shell }) {
    const { filters, others, trail } = state;
    if (trail.length > 1) {
        return box({ title: texts.nothingHere, isDone: false }, h("button", { type: "button", class: "button", on: { click: previous } }, texts.previous));
    }
    if (narrowing(filters) > 0) {
        return box({ title: texts.nothingFound, lead: texts.nothingFoundLead, isDone: false },
            h("button", { type: "button", class: "button", on: { click: () => filter(withoutFilters(filters)) } }, texts.clearFilters));
    }
    if (!filters.isMine) {
        return box({ title: texts.nothingAll, lead: texts.nothingAllLead }, decisionsLink(runs, texts), introduction(texts, shell));
    }
    const pendingForOthers = others?.total > 0 && h("p", {}, texts.pendingForOthers(others.total, others.isComplete), " ",
        h("button", { type: "button", class: "link", on: { click: () => filter({ isMine: false }) } }, texts.showAll));
    return box({ title: texts.nothingMine, lead: texts.nothingMineLead }, [pendingForOthers, decisionsLink(runs, texts)], introduction(texts, shell));
}

/** Links to the list of runs, where decided interrupts are found. */
function decisionsLink(runs, texts) {
    return runs && h("p", {}, h("a", { class: "button", href: runs }, texts.showDecisions));
}

function box({ title, lead, isDone = true }, action, more) {
    return h("section", { class: "empty", key: "empty" },
        h("div", { class: isDone ? "empty-sign" : "empty-sign empty-none", "aria-hidden": "true" }, isDone ? "" : "⌕"),
        h("h2", {}, title), lead && h("p", { class: "muted" }, lead), action, more);
}

function introduction(texts, shell) {
    return h("div", { class: "introduction" }, h("h3", {}, texts.introductionTitle),
        h("ul", {}, texts.introduction.map(([text, code]) => h("li", {}, text, code && h("pre", { class: "command" }, h("code", {}, code))))),
        program(shell));
}
