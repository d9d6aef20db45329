//! Describes the differences between two versions of a text or of JSON.

import { h } from "../dom.js";
import { diffJson } from "./diff_json.js";
import { diffText } from "./diff_text.js";

/**
 * @param {unknown} before
 * @param {unknown} after
 * @param {{layout?: "lines" | "sides"}} [options] `sides` applies to texts, also within JSON
 */
export function diff(before, after, options = {}) {
    const areTexts = typeof before === "string" && typeof after === "string";
    const content = areTexts ? diffText(before, after, options) : diffJson(before, after, options);
    return h("div", { class: "untrusted" }, content);
}
