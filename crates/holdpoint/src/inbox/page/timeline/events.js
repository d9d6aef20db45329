//! Describes the pages of the event list of a run.

import { h } from "../dom.js";
import { absolute, instant } from "../show/time.js";
import { run as texts } from "../texts/run.js";
import { nameOf } from "../decide/model.js";
import { filterEvents, PAGE, pageOf, categoryOf, titleOf, eventSummary } from "./model.js";
import { durationText } from "./steps.js";

/**
 * @param {Object[]} log
 * @param {{filter: string, nodeId: string | null, page: number | null, selected: number | null, names: Map<string, string>,
 *   set: (change: Object) => void, detail: unknown}} view
 */
export function events(log, view) {
    const list = filterEvents(log, view);
    const { pages, page, entries } = pageOf(list, view.page);
    return h(
        "section",
        { class: "card events", "aria-labelledby": "events-heading" },
        h("h2", { id: "events-heading" }, texts.events),
        toolbar(view),
        entries.length === 0
            ? h("p", { class: "nothing" }, texts.noEvents)
            : h(
                  "ol",
                  { class: "event-list" },
                  entries.map((event, index) => item(event, before(list, event, index, page), view)),
              ),
        pages > 1 ? pager(page, pages, view) : null,
    );
}

function before(list, event, index, page) {
    const at = (page - 1) * PAGE + index;
    return at > 0 ? list[at - 1] : null;
}

function toolbar({ filter, nodeId, names, set }) {
    const options = Object.entries(texts.filters).map(([value, label]) => h("option", { value }, label));
    const change = (event) => set({ filter: event.target.value, page: null });
    return h(
        "div",
        { class: "event-tools" },
        h("label", { class: "stacked" }, texts.filter, h("select", { value: filter, on: { change } }, options)),
        nodeId === null
            ? null
            : h(
                  "button",
                  { type: "button", class: "button", on: { click: () => set({ nodeId: null, page: null }) } },
                  `${texts.onlyNode(nameOf(names.get(nodeId) ?? nodeId))} ✕`,
              ),
    );
}

function item(event, previous, view) {
    const { sequence, type, nodeId, timestamp } = event;
    const isSelected = view.selected === sequence;
    const gap = previous ? instant(timestamp) - instant(previous.timestamp) : 0;
    const words = eventSummary(event);
    const toggle = () => view.set({ selected: isSelected ? null : sequence });
    return h(
        "li",
        { class: `event event-${categoryOf(type)}`, key: `event ${sequence}` },
        h(
            "button",
            { type: "button", class: "event-line", "aria-expanded": isSelected, on: { click: toggle } },
            h("span", { class: "event-seq" }, texts.seq(sequence)),
            h(
                "span",
                { class: "event-what" },
                h("strong", {}, titleOf(type)),
                nodeId ? ` · ${nameOf(view.names.get(nodeId) ?? nodeId)}` : "",
                words ? h("span", { class: "event-words", dir: "auto" }, words) : null,
            ),
            h(
                "time",
                { class: "event-at", datetime: timestamp, title: absolute(timestamp) },
                clock(timestamp),
                gap > 0 ? h("span", { class: "event-gap" }, texts.later(durationText(gap))) : null,
            ),
        ),
        isSelected ? view.detail(event) : null,
    );
}

function clock(timestamp) {
    return new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }).format(instant(timestamp));
}

function pager(page, pages, { set }) {
    const go = (label, target, isOff) =>
        h(
            "button",
            {
                type: "button",
                class: "button",
                "aria-disabled": isOff || undefined,
                on: { click: () => !isOff && set({ page: target, selected: null }) },
            },
            label,
        );
    return h(
        "nav",
        { class: "pager", "aria-label": texts.pages },
        go(texts.oldest, 1, page === 1),
        go(texts.older, page - 1, page === 1),
        h("span", { role: "status" }, texts.page(page, pages)),
        go(texts.newer, page + 1 === pages ? null : page + 1, page === pages),
        go(texts.newest, null, page === pages),
    );
}
