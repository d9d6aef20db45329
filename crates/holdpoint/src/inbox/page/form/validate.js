//! Validates values against their schemas. Each function returns the message of the first error, or undefined.

import { form as texts } from "../texts/form.js";
import { shortText } from "../show/characters.js";
import { hasDuplicates } from "./plan.js";

const PATTERN_CHARACTERS_MAX = 200;
const VALUE_CHARACTERS_MAX = 200;

/** @returns {string | undefined} */
export function validateText(schema, value) {
    const length = Array.from(value).length;
    if (schema.minLength > length) {
        return value === "" ? texts.needed : texts.tooShort(schema.minLength);
    }
    if (schema.maxLength < length) {
        return texts.tooLong(schema.maxLength);
    }
    if (!matches(schema.pattern, value)) {
        return texts.pattern(shortText(schema.pattern, 100));
    }
    return Object.hasOwn(FORMATS, schema.format) ? FORMATS[schema.format](value) : undefined;
}

/** @returns {string | undefined} */
export function validateNumber({ schema, isInteger }, value) {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
        return texts.inexact;
    }
    const rules = [
        [!Number.isFinite(value), texts.notNumber],
        [isInteger && !Number.isInteger(value), texts.notInteger],
        [value < schema.minimum, texts.atLeast],
        [value > schema.maximum, texts.atMost],
        [value <= schema.exclusiveMinimum, texts.moreThan],
        [value >= schema.exclusiveMaximum, texts.lessThan],
        [schema.multipleOf > 0 && !isMultiple(value, schema.multipleOf), texts.multipleOf],
    ];
    const limits = [0, 0, schema.minimum, schema.maximum, schema.exclusiveMinimum, schema.exclusiveMaximum, schema.multipleOf];
    const broken = rules.findIndex(([isBroken]) => isBroken);
    const message = rules[broken]?.[1];
    return typeof message === "function" ? message(limits[broken]) : message;
}

/** @returns {string | undefined} */
export function validateList(schema, values) {
    if (schema.minItems > values.length) {
        return texts.tooFewItems(schema.minItems);
    }
    if (schema.maxItems < values.length) {
        return texts.tooManyItems(schema.maxItems);
    }
    return schema.uniqueItems === true && hasDuplicates(values) ? texts.sameItems : undefined;
}

const FORMATS = {
    date: (value) => (isDate(value) ? undefined : texts.notDate),
    "date-time": (value) => (isDateTime(value) ? undefined : texts.notDateTime),
    email: (value) => (/^[^\s@]+@[^\s@]+$/.test(value) ? undefined : texts.notEmail),
    uri: (value) => (isUri(value) ? undefined : texts.notUri),
};

function isUri(value) {
    try {
        return Boolean(new URL(value));
    } catch {
        return false;
    }
}

function isDate(value) {
    const time = new Date(`${value}T00:00:00Z`);
    return /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(value);
}

function isDateTime(value) {
    const found = /^(\d{4}-\d\d-\d\d)[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/.exec(value);
    return Boolean(found) && isDate(found[1]);
}

/** Compares with a tolerance: 0.3 is a multiple of 0.1, but not exactly in floating point. */
function isMultiple(value, step) {
    const times = value / step;
    return Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(1, Math.abs(times));
}

/**
 * Returns whether a text matches a pattern. Tries only patterns without a risk of long backtracking, on short texts:
 * the pattern is untrusted, and a slow one would freeze the page. The server checks all patterns.
 */
function matches(pattern, value) {
    if (typeof pattern !== "string" || pattern.length > PATTERN_CHARACTERS_MAX || value.length > VALUE_CHARACTERS_MAX) {
        return true;
    }
    const bare = pattern.replace(/\\./g, "x").replace(/\[[^\]]*\]/g, "x");
    const isRisky = /\)[*+{]|\(\?[=!<]/.test(bare) || /\\[1-9k]/.test(pattern) || (bare.match(/[*+]|\{\d+,/g) ?? []).length > 3;
    if (isRisky) {
        return true;
    }
    try {
        return new RegExp(pattern, "u").test(value);
    } catch {
        return true;
    }
}
