//! Labels and hints of fields.

import { form as texts } from "../texts/form.js";
import { shortText } from "../show/characters.js";

const LABEL_CHARACTERS = 300;

/** Returns the label of a field: from the caller, the title of its schema, or its readable name. */
export function labelOf(state, field, pointer) {
    const given = Object.hasOwn(state.names, pointer) ? state.names[pointer] : field.plan.schema.title;
    if (typeof given === "string" && given.trim() !== "") {
        return shortText(given, LABEL_CHARACTERS);
    }
    if (field.name !== undefined) {
        return readable(field.name);
    }
    const position = /\/(\d+)$/.exec(pointer);
    return position ? texts.item(Number(position[1]) + 1) : texts.answer;
}

/** Converts `customer_email` and `customerEmail` to “Customer email”. Other names do not change. */
export function readable(name) {
    if (!/^[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*$/.test(name) || name.length > 60) {
        return name.trim() === "" ? JSON.stringify(name) : shortText(name, LABEL_CHARACTERS);
    }
    const spaced = name.replace(/[_-]/g, " ").replace(/([a-z0-9])([A-Z])(?=[a-z])/g, (_, end, start) => `${end} ${start.toLowerCase()}`);
    return spaced[0].toUpperCase() + spaced.slice(1);
}

/** Returns the hints of a field: its limits, its format and an example. */
export function hintsOf(plan) {
    const { schema, kind } = plan;
    const hints = [];
    if (kind === "number") {
        hints.push(rangeOf(schema), plan.isInteger && texts.wholeNumber, schema.multipleOf > 0 && texts.multipleOf(schema.multipleOf));
    }
    if (kind === "text") {
        hints.push(schema.maxLength > 0 && schema.maxLength < 10_000 && texts.lengthMax(schema.maxLength));
        hints.push(schema.format === "date-time" && texts.yourZone(Intl.DateTimeFormat().resolvedOptions().timeZone));
    }
    if (kind === "json") {
        hints.push(texts.jsonHint);
    }
    const example = Array.isArray(schema.examples) ? schema.examples[0] : undefined;
    if (example !== undefined) {
        hints.push(texts.example(shortText(typeof example === "string" ? example : JSON.stringify(example), 200)));
    }
    return hints.filter(Boolean);
}

function rangeOf({ minimum, maximum }) {
    const hasLow = typeof minimum === "number";
    const hasHigh = typeof maximum === "number";
    if (hasLow && hasHigh) {
        return texts.rangeBoth(minimum, maximum);
    }
    return hasLow ? texts.rangeLow(minimum) : hasHigh && texts.rangeHigh(maximum);
}
