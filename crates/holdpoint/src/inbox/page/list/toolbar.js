//! Describes the head of the list: the counts, the filters and the selection.

import { h } from "../dom.js";
import { shortText } from "../show/characters.js";
import { isSelectable } from "./model.js";
import { chosenTotal, KINDS, narrowing, ORDERS, withoutFilters } from "./query.js";

export function head(state, { texts, connection, showNew, refresh }) {
    const { counts, filters } = state;
    const isComplete = counts?.isComplete ?? true;
    return h("div", { class: "page-head", key: "head" },
        h("h1", {}, filters.isMine ? texts.titleMine : texts.title,
            counts && h("span", { class: "head-count" }, h("span", { class: "visually-hidden" }, ": "), texts.number(chosenTotal(counts, filters.kinds), isComplete))),
        h("p", { class: "head-facts" },
            counts?.overdue > 0 && h("span", { class: "chip chip-bad" }, texts.overdue(counts.overdue)),
            counts?.dueSoon > 0 && h("span", { class: "chip chip-warn" }, texts.dueSoon(counts.dueSoon)),
            connection === "polling" && h("span", { class: "chip" }, texts.notLive)),
        state.added > 0 && h("button", { key: "new", type: "button", class: "button new-items", on: { click: showNew } }, texts.newItems(state.added, state.isMoreAdded)),
        state.added === 0 && state.gone.size > 0 && h("button", { key: "refresh", type: "button", class: "button quiet", on: { click: refresh } }, texts.refresh));
}

export function toolbar(state, { texts, filter, search, workflows, opened }) {
    const { filters } = state;
    return h("div", { class: "toolbar", key: "toolbar", role: "search" },
        whose(filters, texts, filter),
        h("label", { class: "search" }, h("span", { class: "visually-hidden" }, texts.search),
            h("input", { id: "search", type: "search", value: filters.text, placeholder: texts.searchPlaceholder, autocomplete: "off", spellcheck: "false", on: { input: search } })),
        h("label", { class: "order" }, h("span", { class: "visually-hidden" }, texts.order),
            h("select", { id: "order", value: filters.order, on: { change: (event) => filter({ order: event.target.value }) } },
                ORDERS.map((order) => h("option", { value: order, selected: order === filters.order }, texts.orders[order])))),
        kinds(state, texts, filter),
        others(filters, { texts, filter, workflows, opened }),
        chosen(filters, texts, filter));
}

function whose(filters, texts, filter) {
    const one = (isMine, text) => h("button", {
        type: "button", class: "segment", "aria-pressed": filters.isMine === isMine ? "true" : "false", on: { click: () => filter({ isMine }) },
    }, text);
    return h("div", { class: "segments", role: "group", "aria-label": texts.whose }, one(true, texts.mine), one(false, texts.all));
}

/** Describes the kind filter: the pending and the chosen kinds; null if only one kind is pending. */
function kinds({ counts, filters }, texts, filter) {
    const there = KINDS.filter((kind) => counts?.byKind[kind] > 0 || filters.kinds.includes(kind));
    if (there.length < 2 && filters.kinds.length === 0) {
        return null;
    }
    const toggle = (kind) => filter({ kinds: filters.kinds.includes(kind) ? filters.kinds.filter((one) => one !== kind) : [...filters.kinds, kind] });
    const one = (kind, name, amount, isOn, act) => h("button", { key: kind, type: "button", class: "kind-choice", "aria-pressed": isOn ? "true" : "false", on: { click: act } },
        name, " ", h("span", { class: "kind-count" }, texts.number(amount, counts?.isComplete ?? true)));
    return h("div", { class: "kinds", key: "kinds", role: "group", "aria-label": texts.kinds },
        one("any", texts.anyKind, counts?.total ?? 0, filters.kinds.length === 0, () => filter({ kinds: [] })),
        there.map((kind) => one(kind, texts.kindNames[kind], counts?.byKind[kind] ?? 0, filters.kinds.includes(kind), () => toggle(kind))));
}

function others(filters, { texts, filter, workflows, opened }) {
    const amount = Number(filters.workflowId !== "") + Number(filters.tag !== "");
    const ids = [...new Set([...workflows, ...(filters.workflowId ? [filters.workflowId] : [])])];
    return h("details", { class: "other-filters", on: { toggle: opened } },
        h("summary", {}, amount > 0 ? texts.filtersSet(amount) : texts.moreFilters),
        h("div", { class: "other-filters-box" },
            h("label", { class: "stacked" }, texts.workflow,
                h("select", { value: filters.workflowId, on: { change: (event) => filter({ workflowId: event.target.value }) } },
                    h("option", { value: "", selected: filters.workflowId === "" }, texts.all),
                    ids.map((id) => h("option", { key: id, value: id, selected: id === filters.workflowId }, shortText(id, 60))))),
            h("label", { class: "stacked" }, texts.tag,
                h("input", { type: "text", value: filters.tag, autocomplete: "off", spellcheck: "false", on: { change: (event) => filter({ tag: event.target.value.trim() }) } }))));
}

/** Describes the set filters, each with a button that removes it. */
function chosen(filters, texts, filter) {
    const one = (name, value, change) => value !== "" && h("button", {
        key: name, type: "button", class: "chip chip-filter", title: texts.clear(name), on: { click: () => filter(change) },
    }, `${name}: ${shortText(value, 40)}`, h("span", { class: "cross", "aria-hidden": "true" }, "×"));
    const all = [one(texts.workflow, filters.workflowId, { workflowId: "" }), one(texts.tag, filters.tag, { tag: "" })].filter(Boolean);
    return h("div", { class: "chosen", key: "chosen" },
        all,
        narrowing(filters) > 1 && h("button", { key: "clear", type: "button", class: "link", on: { click: () => filter(withoutFilters(filters)) } }, texts.clearFilters),
        filters.order === "deadline" && h("span", { key: "deadline", class: "muted" }, texts.deadlineOnly));
}

/** Describes the selection bar. Without a selection it only has the check box that selects the page. */
export function selectionBar(state, { texts, accept, reject, selectPage, clear }) {
    const selectable = state.items.filter((item) => isSelectable(item, state.gone));
    const { selection } = state;
    if (selectable.length === 0 && selection.size === 0) {
        return null;
    }
    const here = selectable.filter((item) => selection.has(item.interruptId)).length;
    const isAll = selectable.length > 0 && here === selectable.length;
    const isAny = selection.size > 0;
    return h("div", { class: isAny ? "selection selection-on" : "selection", key: "selection", role: "group", "aria-label": texts.selected(selection.size) },
        h("label", { class: "item-select" },
            h("input", { type: "checkbox", checked: isAll, "aria-label": texts.selectPage, on: { change: (event) => selectPage(event.target.checked) } })),
        isAny
            ? [h("span", { key: "amount", class: "selection-amount" }, texts.selected(selection.size), selection.size > here && ` ${texts.elsewhere(selection.size - here)}`),
                h("button", { key: "accept", type: "button", class: "button primary", on: { click: accept } }, texts.acceptSelected),
                h("button", { key: "reject", type: "button", class: "button danger", on: { click: reject } }, texts.rejectSelected),
                h("button", { key: "clear", type: "button", class: "link", on: { click: clear } }, texts.clearSelection)]
            : h("span", { key: "hint", class: "muted selection-hint", "aria-hidden": "true" }, texts.selectPage));
}
