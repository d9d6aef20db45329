//! A form from a JSON Schema: what to ask, in which fields, and what was answered.

import { h } from "../dom.js";
import { summary } from "./errors.js";
import { drawField } from "./fields.js";
import { readField } from "./read.js";
import { fieldsOf, makeField } from "./state.js";

/**
 * @param {unknown} schema a JSON Schema (2020-12); what a form cannot ask is asked as JSON
 * @param {Object} [options]
 * @param {unknown} [options.value] what is there already; undefined: begin with the defaults of the schema
 * @param {Object<string, string>} [options.names] labels by JSON pointer, before the titles of the schema
 * @param {string} [options.id] begins the ids of elements; differs among the forms of a page
 * @param {(change: {isShape: boolean}) => void} [options.change] called after every change. With `isShape` fields have come
 *   or gone, or an error of JSON is to be shown: describe the form again.
 * @returns {{describe: (view?: {errors?: Object<string, string>}) => import("../dom.js").Description,
 *   read: () => {value: unknown, errors: Object<string, string>}, isTouched: () => boolean,
 *   idOf: (pointer: string) => string | null}}
 */
export function form(schema, { value, names = {}, id = "form", change = () => {} } = {}) {
    const state = { root: schema, count: 0, names, id, change, focus: null, told: "{}" };
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
    // Where there is one field its own line says it all, and new errors lead there.
    const isOne = !["object", "list"].includes(state.field.plan.kind);
    const told = JSON.stringify(placed);
    if (isOne && told !== "{}" && told !== state.told) {
        state.focus = elementId(state, "");
    }
    state.told = told;
    const description = h(
        "div",
        { class: "form untrusted", key: state.id },
        isOne ? null : summary(placed, (pointer) => elementId(state, pointer), state),
        drawField(state, state.field, "", placed),
    );
    state.focus = null;
    return description;
}

/** An error of a place that has no field is said at the nearest one around it. */
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
