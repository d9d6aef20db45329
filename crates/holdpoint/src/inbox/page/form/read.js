//! Reads the value of a form and its errors by JSON pointer. The server validates the value again.

import { form as texts } from "../texts/form.js";
import { parseJson, syntaxMessage } from "./json_text.js";
import { validateList, validateNumber, validateText } from "./validate.js";
import { isObject } from "./plan.js";
import { escaped } from "./state.js";

/** Marks an absent member. */
const ABSENT = Symbol("absent");

/**
 * @param {import("./state.js").Field} root
 * @returns {{value: unknown, errors: Object<string, string>}} `value` is undefined if there is none
 */
export function readField(root) {
    const errors = {};
    const value = read(root, "", errors);
    return { value: value === ABSENT ? undefined : value, errors };
}

function read(field, pointer, errors) {
    const value = READERS[field.plan.kind](field, pointer, errors);
    if (value === ABSENT && field.isRequired && errors[pointer] === undefined) {
        errors[pointer] = field.plan.kind === "choice" ? texts.neededChoice : texts.needed;
    }
    return value;
}

const READERS = {
    text: readText,
    number: readNumber,
    choice: (field) => (field.isTouched || field.initial === undefined ? chosen(field) : field.initial),
    choices: readChoices,
    object: readObject,
    list: readList,
    json: readJson,
};

function readText(field, pointer, errors) {
    const { plan, initial, isTouched, raw } = field;
    if (isTouched && raw === "" && initial !== "") {
        return empty(field);
    }
    const value = isTouched ? textValue(plan, raw) : initial;
    if (typeof value !== "string") {
        return value === undefined ? ABSENT : value;
    }
    note(errors, pointer, validateText(plan.schema, value));
    return value;
}

/** Converts a time in the time zone of the user to an instant. */
function textValue(plan, raw) {
    const isLocal = plan.schema.format === "date-time" && /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(raw);
    const time = isLocal ? new Date(raw) : null;
    return time && !Number.isNaN(time.getTime()) ? time.toISOString().replace(".000Z", "Z") : raw;
}

function readNumber(field, pointer, errors) {
    const { plan, initial, isTouched } = field;
    const raw = String(field.raw).trim();
    if (isTouched && raw === "") {
        return empty(field);
    }
    if (isTouched && !/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(raw)) {
        note(errors, pointer, texts.notNumber);
        return ABSENT;
    }
    const value = isTouched ? Number(raw) : initial;
    if (typeof value !== "number") {
        return value === undefined ? ABSENT : value;
    }
    note(errors, pointer, validateNumber(plan, value));
    return value;
}

/**
 * Returns the value of an emptied field: null if the schema allows it, unless the member was absent and is optional.
 */
function empty(field) {
    const wasAbsent = field.initial === undefined && !field.isRequired;
    return field.plan.isNullable && !wasAbsent ? null : ABSENT;
}

function chosen(field) {
    return field.raw >= 0 ? field.plan.choices[field.raw].value : ABSENT;
}

function readChoices(field, pointer, errors) {
    const { plan, initial, isTouched, isRequired, raw } = field;
    const fallback = isRequired && initial === undefined ? [] : initial;
    const value = isTouched ? plan.choices.filter((_, index) => raw.has(index)).map((choice) => choice.value) : fallback;
    if (!Array.isArray(value)) {
        return value === undefined ? ABSENT : value;
    }
    note(errors, pointer, validateList(plan.schema, value));
    return value;
}

function readObject(field, pointer, errors) {
    if (!field.isPresent) {
        return missingPart(field);
    }
    const found = new Map();
    for (const member of field.members) {
        const value = read(member, `${pointer}/${escaped(member.name)}`, errors);
        if (value !== ABSENT) {
            found.set(member.name, value);
        }
    }
    for (const [name, value] of Object.entries(readExtra(field, pointer, errors))) {
        if (!found.has(name)) {
            found.set(name, value);
        }
    }
    return inOrder(found, field.initial);
}

function readExtra(field, pointer, errors) {
    const value = field.extra ? readJson(field.extra, pointer, errors) : ABSENT;
    if (value !== ABSENT && !isObject(value)) {
        note(errors, pointer, texts.syntaxValue);
    }
    return isObject(value) ? value : {};
}

/**
 * Keeps the order of the initial members; new ones follow. Uses `fromEntries`, because a member may be named
 * `__proto__`.
 */
function inOrder(found, initial) {
    const before = isObject(initial) ? Object.keys(initial).filter((name) => found.has(name)) : [];
    const names = new Set([...before, ...found.keys()]);
    return Object.fromEntries(Array.from(names, (name) => [name, found.get(name)]));
}

function readList(field, pointer, errors) {
    if (!field.isPresent) {
        return missingPart(field);
    }
    const values = field.items.map((item, index) => read(item, `${pointer}/${index}`, errors));
    const value = values.map((item) => (item === ABSENT ? null : item));
    note(errors, pointer, validateList(field.plan.schema, value));
    return value;
}

function missingPart(field) {
    const isNull = field.isTouched ? field.plan.isNullable : field.initial === null;
    return isNull ? null : ABSENT;
}

function readJson(field, pointer, errors) {
    const { initial, isTouched, raw } = field;
    if (!isTouched) {
        return initial === undefined ? ABSENT : initial;
    }
    if (raw.trim() === "") {
        return ABSENT;
    }
    const { value, error } = parseJson(raw);
    note(errors, pointer, error && syntaxMessage(error));
    return error ? ABSENT : value;
}

/** Records an error. Only the first error of a pointer is kept. */
function note(errors, pointer, message) {
    if (message && errors[pointer] === undefined) {
        errors[pointer] = message;
    }
}
