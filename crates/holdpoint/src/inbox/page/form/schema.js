//! Creates a form from a JSON Schema.

import { h } from "../dom.js";
import { summary } from "./errors.js";
import { drawField } from "./fields.js";
import { readField } from "./read.js";
import { fieldsOf, makeField } from "./state.js";

/**
 * @param {unknown} schema a JSON Schema (2020-12); unsupported parts get a JSON field
 * @param {Object} [options]
 * @param {unknown} [options.value] the initial value; undefined: the defaults of the schema
 * @param {Object<string, string>} [options.names] labels by JSON pointer; they override the titles of the schema
 * @param {string} [options.id] prefix of the element ids; unique on a page
 * @param {(change: {isShape: boolean}) => void} [options.change] called after every change. With `isShape` the form must be
 *   described again: fields were added or removed, or a JSON error has to be shown.
 * @returns {{describe: (view?: {errors?: Object<string, string>}) => import("../dom.js").Description,
 *   read: () => {value: unknown, errors: Object<string, string>}, isTouched: () => boolean,
 *   idOf: (pointer: string) => string | null}}
 */
export function form(schema, { value, names = {}, id = "form", change = () => {} } = {}) {
    const state = { root: schema, count: 0, names, id, change, focus: null, lastErrors: "{}" };
    state.field = makeField(state, schema, { value, isRequired: true, useDefaults: true });
    return {
        describe: ({ errors = {} } = {}) => describe(state, errors),
        read: () => readField(state.field),
        isTouched: () => Array.from(fieldsOf(state.field)).some(({ field }) => field.isTouched || field.extra?.isTouched),
        idOf: (pointer) => elementId(state, pointer),
    };
}

function describe(state, errors) {
    const placed = placeErrors(state.field, errors);
    // A form with one field has no summary: its error line is enough, and new errors focus the field.
    const isOne = !["object", "list"].includes(state.field.plan.kind);
    const errorsKey = JSON.stringify(placed);
    if (isOne && errorsKey !== "{}" && errorsKey !== state.lastErrors) {
        state.focus = elementId(state, "");
    }
    state.lastErrors = errorsKey;
    const description = h(
        "div",
        { class: "form untrusted", key: state.id },
        isOne ? null : summary(placed, (pointer) => elementId(state, pointer), state),
        drawField(state, state.field, "", placed),
    );
    state.focus = null;
    return description;
}

/** Moves errors of pointers without a field to the nearest enclosing field. */
function placeErrors(root, errors) {
    const known = new Set(Array.from(fieldsOf(root), ({ pointer }) => pointer));
    const placed = {};
    for (const [pointer, message] of Object.entries(errors)) {
        let place = pointer;
        while (!known.has(place) && place !== "") {
            place = place.slice(0, Math.max(0, place.lastIndexOf("/")));
        }
        placed[place] = placed[place] === undefined ? String(message) : `${placed[place]} ${message}`;
    }
    return placed;
}

function elementId(state, pointer) {
    const found = Array.from(fieldsOf(state.field)).find((entry) => entry.pointer === pointer);
    return found ? `${state.id}-${found.field.id}` : null;
}
