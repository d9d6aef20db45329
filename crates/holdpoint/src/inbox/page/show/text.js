//! Describes plain text with its line breaks. Long texts are shown in portions.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { cut, visible } from "./characters.js";

const FIRST_CHARACTERS = 6_000;
const NEXT_CHARACTERS = 100_000;

/**
 * Describes a text with its line breaks.
 * @param {string} value
 * @param {{label?: string, isCode?: boolean}} [options] `label` is its name for screen readers
 */
export function text(value, { label, isCode = false } = {}) {
    if (value === "") {
        return h("p", { class: "nothing" }, texts.emptyText);
    }
    const content = portions(value, FIRST_CHARACTERS);
    const attributes = { class: isCode ? "code" : "text", dir: isCode ? "ltr" : "auto", role: label && "group", "aria-label": label };
    return h("pre", attributes, isCode ? h("code", {}, content) : content);
}

/**
 * Describes the start of a text, with a button for the rest.
 * @param {string} value
 * @param {number} length of the first portion
 * @returns {import("../dom.js").Description[]}
 */
export function portions(value, length, from = 0) {
    const portion = cut(value.slice(from, from + length + 1), length);
    const next = from + portion.length;
    if (next >= value.length || portion === "") {
        return visible(portion);
    }
    const label = texts.showMoreCharacters(value.length - next);
    const later = () => portions(value, NEXT_CHARACTERS, next).map((piece) => wrapped(piece));
    return [...visible(portion), more(label, later, `from ${next}`)];
}

// The element takes the focus of the button that it replaces.
function wrapped(piece) {
    return typeof piece === "string" ? h("span", {}, piece) : piece;
}
