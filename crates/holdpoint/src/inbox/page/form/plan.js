//! Chooses the kind of field for a JSON Schema. Schemas that a form cannot represent get a JSON field.

import { form as texts } from "../texts/form.js";
import { shortText } from "../show/characters.js";
import { canonical } from "../show/digest.js";

const REFERENCES_MAX = 20;
const CHOICES_MAX = 300;
const MEMBERS_MAX = 100;
const LABEL_CHARACTERS = 200;
/** Keywords that a form does not support. They can add members, so a schema with one of them gets a JSON field. */
const BEYOND_FORMS = ["if", "then", "else", "patternProperties", "dependentSchemas", "prefixItems", "$dynamicRef", "anyOf", "oneOf", "allOf"];

/**
 * @typedef {{kind: "text" | "number" | "choice" | "choices" | "object" | "list" | "json", schema: Object, isNullable: boolean,
 *   choices?: {value: unknown, label: string}[], members?: {name: string, schema: unknown, isRequired: boolean}[]}} Plan
 *
 * @param {unknown} schema
 * @param {unknown} root the schema that references refer to
 * @returns {Plan}
 */
export function planOf(schema, root) {
    const resolved = resolve(schema, root);
    if (!resolved) {
        return { kind: "json", schema: isObject(schema) ? schema : {}, isNullable: false };
    }
    const { schema: merged, isNullable } = withoutNull(resolved, root);
    const found = choicePlan(merged, root) ?? (BEYOND_FORMS.some((name) => name in merged) ? null : typedPlan(merged, root));
    return withNullChoice({ kind: "json", ...found, schema: merged, isNullable });
}

/** Returns whether a field of this kind can show the value and return it unchanged. */
export function fits(plan, value) {
    const kinds = {
        text: () => typeof value === "string",
        number: () => typeof value === "number",
        choice: () => choiceOf(plan, value) >= 0,
        choices: () => Array.isArray(value) && value.every((item) => choiceOf(plan, item) >= 0) && !hasDuplicates(value),
        object: () => isObject(value),
        list: () => Array.isArray(value),
        json: () => true,
    };
    return kinds[plan.kind]();
}

export function choiceOf(plan, value) {
    const wanted = canonical(value);
    return plan.choices.findIndex((choice) => canonical(choice.value) === wanted);
}

export function hasDuplicates(values) {
    return new Set(values.map(canonical)).size < values.length;
}

export function isObject(value) {
    return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Resolves local references and merges the keywords next to them. Returns null for a broken reference. */
function resolve(schema, root) {
    let found = schema;
    let beside = {};
    for (let turn = 0; turn < REFERENCES_MAX; turn += 1) {
        if (!isObject(found)) {
            return null;
        }
        const single = Array.isArray(found.allOf) && found.allOf.length === 1 ? found.allOf[0] : undefined;
        if (typeof found.$ref !== "string" && single === undefined) {
            return { ...found, ...beside };
        }
        const { $ref, ...own } = found;
        beside = { ...own, ...beside };
        if ($ref === undefined) {
            delete beside.allOf;
        }
        found = $ref === undefined ? single : resolvePointer(root, $ref);
    }
    return null;
}

function resolvePointer(root, reference) {
    if (reference !== "#" && !reference.startsWith("#/")) {
        return null;
    }
    let found = root;
    for (const part of reference.split("/").slice(1)) {
        const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
        if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) {
            return null;
        }
        found = found[name];
    }
    return found;
}

function decoded(part) {
    try {
        return decodeURIComponent(part);
    } catch {
        return part;
    }
}

/** Converts `type: [T, "null"]` and `anyOf: [T, null]` to a nullable T. */
function withoutNull(schema, root) {
    const { type } = schema;
    if (Array.isArray(type) && type.length === 2 && type.includes("null")) {
        return { schema: { ...schema, type: type.find((name) => name !== "null") }, isNullable: !("enum" in schema) };
    }
    const word = "anyOf" in schema ? "anyOf" : "oneOf";
    const ways = schema[word];
    if (!Array.isArray(ways) || ways.length !== 2 || !ways.some(isNull)) {
        return { schema, isNullable: false };
    }
    const other = resolve(ways.find((way) => !isNull(way)), root);
    if (!other || ways.every(isNull)) {
        return { schema, isNullable: false };
    }
    const { [word]: _ways, ...own } = schema;
    return { schema: { ...other, ...own }, isNullable: true };
}

function isNull(schema) {
    return isObject(schema) && (schema.type === "null" || schema.const === null) && !("enum" in schema);
}

function choicePlan(schema, root) {
    const values = constants(schema) ?? titled(schema, root);
    const isTooLong = values && (values.length > CHOICES_MAX || values.length === 0);
    return values && !isTooLong ? { kind: "choice", choices: labelled(values) } : null;
}

function constants(schema) {
    if ("const" in schema) {
        return [{ value: schema.const }];
    }
    return Array.isArray(schema.enum) ? schema.enum.map((value) => ({ value })) : null;
}

/** Returns the values of `oneOf` or `anyOf` if every alternative is a constant, with or without a title. */
function titled(schema, root) {
    const ways = schema.oneOf ?? schema.anyOf;
    if (!Array.isArray(ways)) {
        return null;
    }
    const values = ways.map((way) => {
        const found = resolve(way, root);
        const hasOne = found && ("const" in found || (Array.isArray(found.enum) && found.enum.length === 1));
        return hasOne ? { value: "const" in found ? found.const : found.enum[0], title: found.title, description: found.description } : null;
    });
    return values.every(Boolean) ? values : null;
}

/** Adds labels to values. Values with the same label are shown as JSON. */
function labelled(values) {
    const plain = values.map(({ value, title }) => (typeof title === "string" && title !== "" ? title : plainLabel(value)));
    return values.map(({ value, description }, index) => {
        const isAmbiguous = plain.indexOf(plain[index]) !== plain.lastIndexOf(plain[index]);
        const label = shortText(isAmbiguous || plain[index].trim() === "" ? JSON.stringify(value) : plain[index], LABEL_CHARACTERS);
        return { value, label: typeof description === "string" ? `${label}: ${shortText(description, LABEL_CHARACTERS)}` : label };
    });
}

function plainLabel(value) {
    return typeof value === "string" ? value : JSON.stringify(value);
}

function withNullChoice(plan) {
    if (plan.kind !== "choice" || !plan.isNullable) {
        return plan;
    }
    return { ...plan, isNullable: false, choices: [...plan.choices, { value: null, label: texts.none }] };
}

function typedPlan(schema, root) {
    const type = Array.isArray(schema.type) && schema.type.length === 1 ? schema.type[0] : schema.type;
    if (type === "string") {
        return { kind: "text" };
    }
    if (type === "number" || type === "integer") {
        return { kind: "number", isInteger: type === "integer" };
    }
    if (type === "boolean") {
        return { kind: "choice", choices: [{ value: true, label: texts.yes }, { value: false, label: texts.no }] };
    }
    if (type === "null") {
        return { kind: "choice", choices: [{ value: null, label: texts.none }] };
    }
    if (type === "object" || (type === undefined && isObject(schema.properties))) {
        return objectPlan(schema);
    }
    return type === "array" || (type === undefined && isObject(schema.items)) ? listPlan(schema, root) : null;
}

function objectPlan(schema) {
    const properties = isObject(schema.properties) ? schema.properties : {};
    const required = Array.isArray(schema.required) ? schema.required : [];
    const names = Object.keys(properties);
    // A required member without a schema can only be entered as JSON.
    const isWhole = required.every((name) => Object.hasOwn(properties, name));
    if (!isWhole || names.length === 0 || names.length > MEMBERS_MAX) {
        return null;
    }
    return { kind: "object", members: names.map((name) => ({ name, schema: properties[name], isRequired: required.includes(name) })) };
}

function listPlan(schema, root) {
    if (!isObject(schema.items)) {
        return null;
    }
    const items = planOf(schema.items, root);
    if (items.kind === "choice" && schema.uniqueItems === true && items.choices.length <= CHOICES_MAX) {
        return { kind: "choices", choices: items.choices };
    }
    return { kind: "list" };
}
