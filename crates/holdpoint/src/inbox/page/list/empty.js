//! What stands there when there is no item: why, and how one gets there.

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
        return box({ title: texts.nothingAll, lead: texts.nothingAllLead }, decided(runs, texts), teach(texts, shell));
    }
    const othersWait = others?.total > 0 && h("p", {}, texts.othersWait(others.total, others.isComplete), " ",
        h("button", { type: "button", class: "link", on: { click: () => filter({ isMine: false }) } }, texts.showAll));
    return box({ title: texts.nothingMine, lead: texts.nothingMineLead }, [othersWait, decided(runs, texts)], teach(texts, shell));
}

/** What was decided is no longer here, but it is not gone. */
function decided(runs, texts) {
    return runs && h("p", {}, h("a", { class: "button", href: runs }, texts.seeDecided));
}

function box({ title, lead, isDone = true }, action, more) {
    return h("section", { class: "empty", key: "empty" },
        h("div", { class: isDone ? "empty-sign" : "empty-sign empty-none", "aria-hidden": "true" }, isDone ? "" : "⌕"),
        h("h2", {}, title), lead && h("p", { class: "muted" }, lead), action, more);
}

function teach(texts, shell) {
    return h("div", { class: "teach" }, h("h3", {}, texts.teachTitle),
        h("ul", {}, texts.teach.map(([text, code]) => h("li", {}, text, code && h("pre", { class: "command" }, h("code", {}, code))))),
        program(shell));
}
