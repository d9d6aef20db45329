//! A text area for JSON that reports the line and column of syntax errors.

import { h } from "../dom.js";
import { parseJson, syntaxMessage } from "./json_text.js";

const ROWS_MIN = 4;
const ROWS_MAX = 24;

/**
 * @param {Object} options
 * @param {string} options.id
 * @param {string} options.value
 * @param {boolean} options.isTouched an untouched value is not checked
 * @param {Object} [options.describedBy] ARIA attributes of its description and error
 * @param {(raw: string) => void} options.change
 * @param {() => void} [options.leave] called when the user leaves the field after a change
 * @returns {import("../dom.js").Description[]}
 */
export function jsonEditor({ id, value, isTouched, describedBy = {}, change, leave = () => {} }) {
    const error = isTouched && value.trim() !== "" ? parseJson(value).error : undefined;
    const syntaxId = `${id}-syntax`;
    const ids = [describedBy["aria-describedby"], error && syntaxId].filter(Boolean).join(" ");
    const attributes = {
        ...describedBy,
        id,
        class: "json",
        value,
        rows: Math.min(ROWS_MAX, Math.max(ROWS_MIN, linesOf(value))),
        spellcheck: "false",
        autocomplete: "off",
        dir: "ltr",
        "aria-describedby": ids === "" ? undefined : ids,
        "aria-invalid": error ? true : describedBy["aria-invalid"],
        on: { input: (event) => change(event.target.value), change: leave },
    };
    return [h("textarea", attributes), error ? h("p", { class: "field-error", id: syntaxId }, syntaxMessage(error)) : null];
}

function linesOf(value) {
    return value.slice(0, 10_000).split("\n").length + 1;
}
