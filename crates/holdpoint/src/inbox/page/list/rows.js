//! Describes the items of the list.

import { h } from "../dom.js";
import { isHold } from "../decide/model.js";
import { endOfId, shortText, visible } from "../show/characters.js";
import { countdown, deadline, relative, time } from "../show/time.js";
import { isSelectable } from "./model.js";

const TITLE_LENGTH = 240;
const EXCERPT_LENGTH = 170;
const NAMES_MAX = 3;
const TAGS_MAX = 6;
/** The last description of each item, with the facts that it depends on. */
const described = new WeakMap();

/**
 * @param {Object} state of the model
 * @param {{now: number, texts: Object, href: (item: Object) => string, select: Function, filter: Function}} around
 */
export function rows(state, around) {
    return h("ol", { class: "item-list", role: "list", "aria-busy": state.isLoading ? "true" : undefined },
        state.items.map((item, index) => rowAsBefore(item, index, state, around)));
}

/** Describes a row. Reuses the last description if its facts have not changed. */
function rowAsBefore(item, index, state, around) {
    const { interruptId, requestedAt, expiresAt } = item;
    const facts = [index, state.gone.has(interruptId), state.selection.has(interruptId), relative(requestedAt, around.now), countdown(expiresAt, around.now).text];
    const key = facts.join("|");
    const before = described.get(item);
    if (before?.key === key) {
        return before.description;
    }
    const description = row(item, index, state, around);
    described.set(item, { key, description });
    return description;
}

function row(item, index, state, around) {
    const { texts, now } = around;
    const isGone = state.gone.has(item.interruptId);
    const isSelected = state.selection.has(item.interruptId);
    const names = ["item", isGone && "item-gone", isSelected && "item-selected"].filter(Boolean).join(" ");
    const title = shortText(String(item.title ?? ""), TITLE_LENGTH) || texts.untitled;
    return h("li", { key: item.interruptId, class: names, "data-item": item.interruptId },
        selector(item, title, isSelected, state, around),
        h("div", { class: "item-main" },
            h("a", { id: `item-${index}`, class: "item-title", href: around.href(item) }, visible(title)),
            excerpt(item),
            h("div", { class: "item-meta" }, meta(item, around))),
        h("div", { class: "item-side" },
            isGone ? h("span", { class: "chip chip-gone" }, texts.gone) : item.expiresAt && deadline(item.expiresAt, now),
            h("span", { class: "item-age" }, `${texts.asked} `, time(item.requestedAt, now))));
}

/** Describes the start of the content. */
export function excerpt(item) {
    return item.excerpt && h("span", { class: "item-excerpt" }, shortText(String(item.excerpt), EXCERPT_LENGTH));
}

function selector(item, title, isSelected, state, { texts, select }) {
    if (!isSelectable(item, state.gone)) {
        return h("span", { key: "select", class: "item-select" }, "");
    }
    const change = (event) => select(item, event.target.checked);
    return h("label", { key: "select", class: "item-select" },
        h("input", { type: "checkbox", checked: isSelected, "aria-label": texts.select(title), on: { change } }));
}

function meta(item, { texts, filter }) {
    const { kind, votes, requiredApprovals, openAsks, tags = [] } = item;
    return [
        h("span", { class: `chip kind kind-${kind.replace(".", "-")}` },
            h("span", { class: "kind-sign", "aria-hidden": "true" }, texts.kindSigns[kind] ?? "•"), texts.kindNames[kind] ?? kind),
        !isHold(item.workflowId) && h("button", {
            type: "button", class: "part", title: `${texts.workflow}: ${shortText(item.workflowId, 200)}`, on: { click: () => filter({ workflowId: item.workflowId }) },
        }, shortText(item.workflowId, 40)),
        item.path?.length > 0 && h("span", { class: "part-text" }, texts.calledBy(item.path.map(({ nodeId }) => shortText(nodeId, 40)).join(" › "))),
        // Several items can have the same title.
        h("span", { class: "short-id" }, h("span", { class: "visually-hidden" }, `${texts.run} `), endOfId(item.runId)),
        item.assignees.length > 0 && h("span", { class: "part-text" }, texts.assigned(names(item.assignees, texts))),
        requiredApprovals > 1 && h("span", { class: "part-text votes" }, texts.votes(votes?.approvals ?? 0, requiredApprovals)),
        votes?.rejections > 0 && h("span", { class: "part-text" }, texts.rejections(votes.rejections)),
        openAsks > 0 && h("span", { class: "chip chip-warn" }, texts.openAsks(openAsks)),
        tags.slice(0, TAGS_MAX).map((tag) =>
            h("button", { type: "button", class: "part part-tag", on: { click: () => filter({ tag }) } },
                h("span", { class: "visually-hidden" }, `${texts.tagged} `), `#${shortText(tag, 30)}`)),
        tags.length > TAGS_MAX && h("span", { class: "part-text" }, texts.moreNames(tags.length - TAGS_MAX)),
    ];
}

function names(all, texts) {
    const shown = all.slice(0, NAMES_MAX).map((name) => shortText(name, 40)).join(", ");
    return all.length > NAMES_MAX ? `${shown} ${texts.moreNames(all.length - NAMES_MAX)}` : shown;
}
