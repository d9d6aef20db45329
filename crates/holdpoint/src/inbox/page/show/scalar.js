//! Describes scalar JSON values: strings in quotes, so that "1" and 1 differ; inexact numbers with a mark.

import { h } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { portions } from "./text.js";

const STRING_CHARACTERS = 500;

export function isScalar(value) {
    return value === null || typeof value !== "object";
}

/** Describes a scalar in JSON notation, but without escapes: line breaks stay line breaks. */
export function scalar(value) {
    if (typeof value === "string") {
        return h("span", { class: "json-string", dir: "auto" }, "\"", portions(value, STRING_CHARACTERS), "\"");
    }
    if (value === null || value === undefined) {
        return h("span", { class: "json-null" }, "null");
    }
    if (typeof value === "boolean") {
        return h("span", { class: "json-boolean" }, String(value));
    }
    return number(value);
}

/** Describes a scalar without quotes, except for strings that look like another value. */
export function cell(value) {
    if (typeof value !== "string" || isAmbiguous(value)) {
        return scalar(value);
    }
    return h("span", { class: "plain-string", dir: "auto" }, portions(value, STRING_CHARACTERS));
}

function isAmbiguous(text) {
    return text === "" || text.trim() !== text || /^(null|true|false|—|-?[\d.][\d.,eE+-]*)$/.test(text.slice(0, 100));
}

function number(value) {
    const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
    const attributes = isRounded ? { class: "json-number json-rounded", title: texts.roundedNumber } : { class: "json-number" };
    return h("span", attributes, isRounded ? "≈ " : "", String(value));
}
