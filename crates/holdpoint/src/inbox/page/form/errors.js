//! Validation errors: the summary above a form, the line below a field, and the errors of the server.

import { h } from "../dom.js";
import { form as texts } from "../texts/form.js";
import { shortText, visible } from "../show/characters.js";
import { escaped, fieldsOf } from "./state.js";
import { labelOf } from "./labels.js";

const MESSAGE_CHARACTERS = 500;

/** Describes the error line below a field. The field refers to its id with `aria-describedby`. */
export function errorLine(id, message) {
    if (message === undefined) {
        return null;
    }
    return h("p", { class: "field-error", id: `${id}-error` }, visible(shortText(message, MESSAGE_CHARACTERS)));
}

/**
 * Describes the summary of all errors, with a button to each field. New errors take the focus, so that they are
 * noticed.
 */
export function summary(errors, idOf, state) {
    const pointers = Object.keys(errors);
    if (pointers.length === 0) {
        return null;
    }
    const labels = new Map(Array.from(fieldsOf(state.field), ({ field, pointer }) => [pointer, labelOf(state, field, pointer)]));
    const entries = pointers.map((pointer) => {
        const label = labels.get(pointer);
        const words = `${label ? `${label}: ` : ""}${shortText(errors[pointer], MESSAGE_CHARACTERS)}`;
        const lead = (event) => event.target.ownerDocument?.getElementById(idOf(pointer))?.focus();
        return h("li", {}, h("button", { type: "button", class: "link", on: { click: lead } }, words));
    });
    const attributes = { class: "error-summary", role: "alert", tabindex: -1, autofocus: true, key: `errors ${JSON.stringify(errors)}` };
    return h("div", attributes, h("p", {}, texts.problems(pointers.length)), h("ul", {}, entries));
}

/**
 * Returns the errors by JSON pointer from an error response of the API, `{message, details: {field}}`. `prefix` is the
 * path of the form's value in the request: `resumeValue`, or `resumeValue.answers.colour` for one question.
 * @returns {Object<string, string>}
 */
export function serverErrors(body, prefix = "resumeValue") {
    const field = typeof body?.details?.field === "string" ? body.details.field : "";
    const message = String(body?.message ?? "");
    const words = field !== "" && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
    const rest = field.startsWith(prefix) ? field.slice(prefix.length) : "";
    const pointer = pointerOf(rest);
    const missing = /^"([^"]+)" is a required property$/.exec(words);
    return missing ? { [`${pointer}/${escaped(missing[1])}`]: texts.needed } : { [pointer]: words };
}

/** Converts `.answers.colour/0` and `.items[2].id` to JSON pointers. */
function pointerOf(field) {
    const at = field.indexOf("/");
    const dotted = at < 0 ? field : field.slice(0, at);
    const parts = dotted.match(/[^.[\]]+/g) ?? [];
    return parts.map((part) => `/${escaped(part)}`).join("") + (at < 0 ? "" : field.slice(at));
}
