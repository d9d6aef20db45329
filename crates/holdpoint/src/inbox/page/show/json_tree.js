//! Describes JSON as a tree of nested `details`, which keyboards and screen readers support. Closed parts are
//! described only when they are opened, and long lists are shown in portions.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText, visible } from "./characters.js";
import { isScalar, scalar } from "./scalar.js";

const ENTRIES_AT_ONCE = 100;
/** The maximum number of entries that are open at first, over all levels. */
const OPEN_ENTRIES_MAX = 150;
const OPEN_LEVELS = 3;
const NAME_CHARACTERS = 200;

/**
 * @param {unknown} value any JSON value
 * @param {{label?: string, openLevels?: number}} [options]
 */
export function jsonTree(value, { label = texts.tree, openLevels = OPEN_LEVELS } = {}) {
    if (isScalar(value)) {
        return h("div", { class: "json-tree" }, scalar(value));
    }
    const budget = { left: OPEN_ENTRIES_MAX };
    const entries = sizeOf(value);
    const list = entries === 0 ? scalarBrackets(value) : level(value, openLevels, budget);
    return h("div", { class: "json-tree", role: "group", "aria-label": label }, list);
}

function level(value, openLevels, budget) {
    const names = Array.isArray(value) ? null : Object.keys(value);
    return h("ul", {}, entries(value, names, 0, openLevels, budget));
}

function entries(value, names, from, openLevels, budget) {
    const size = names ? names.length : value.length;
    const end = Math.min(from + ENTRIES_AT_ONCE, size);
    const shown = [];
    budget.left -= end - from;
    for (let index = from; index < end; index += 1) {
        const name = names ? names[index] : index;
        shown.push(entry(name, value[name], openLevels, budget));
    }
    if (end < size) {
        const label = texts.showMoreEntries(Math.min(ENTRIES_AT_ONCE, size - end), size - end);
        const later = () => entries(value, names, end, 0, { left: 0 });
        shown.push(more(label, later, `from ${end}`, (button) => h("li", {}, button)));
    }
    return shown;
}

function entry(name, value, openLevels, budget) {
    const key = nameOf(name);
    if (isScalar(value)) {
        return h("li", {}, key, scalar(value));
    }
    if (sizeOf(value) === 0) {
        return h("li", {}, key, scalarBrackets(value));
    }
    const isOpen = openLevels > 1 && sizeOf(value) <= budget.left;
    const summary = h("summary", {}, key, h("span", { class: "json-size" }, describe(value)));
    if (isOpen) {
        return h("li", {}, h("details", { open: true }, summary, level(value, openLevels - 1, budget)));
    }
    const later = () => [level(value, 1, { left: 0 })];
    return h("li", {}, h("details", { later }, summary));
}

function nameOf(name) {
    if (typeof name === "number") {
        return h("span", { class: "json-index" }, `${name}: `);
    }
    const shown = name.length > NAME_CHARACTERS ? [shortText(name, NAME_CHARACTERS)] : visible(name);
    return h("span", { class: "json-name", dir: "auto" }, name === "" ? "\"\"" : shown, ": ");
}

function describe(value) {
    return Array.isArray(value) ? `[ ${texts.items(value.length)} ]` : `{ ${texts.members(sizeOf(value))} }`;
}

function scalarBrackets(value) {
    const words = Array.isArray(value) ? texts.noItems : texts.noMembers;
    return h("span", { class: "json-empty", title: words }, Array.isArray(value) ? "[ ]" : "{ }");
}

function sizeOf(value) {
    return Array.isArray(value) ? value.length : Object.keys(value).length;
}
