//! The state of a form: a tree of fields next to the schema. Each field keeps its initial value, so that an unchanged
//! form returns exactly that value.

import { choiceOf, fits, isObject, planOf } from "./plan.js";

const LEVELS_MAX = 12;
const FIELDS_MAX = 1_000;
const ITEMS_MAX = 100;

/**
 * @typedef {{id: number, plan: import("./plan.js").Plan, name?: string | number, isRequired: boolean, initial: unknown,
 *   isTouched: boolean, isPresent: boolean, raw: any, members: Field[], items: Field[], extra?: Field}} Field
 *
 * @param {{root: unknown, count: number}} form
 * @param {unknown} schema
 * @param {{value?: unknown, isRequired: boolean, useDefaults: boolean, level?: number}} options `value` is undefined if there is none
 * @returns {Field}
 */
export function makeField(form, schema, { value, isRequired, useDefaults, level = 0 }) {
    form.count += 1;
    const isTooMuch = level > LEVELS_MAX || form.count > FIELDS_MAX;
    const plan = isTooMuch ? asJson(planOf({}, {}), schema) : planOf(schema, form.root);
    const initial = value === undefined && useDefaults ? plan.schema.default : value;
    const field = {
        id: form.count,
        plan: isShowable(plan, initial) ? plan : asJson(plan, plan.schema),
        isRequired,
        initial,
        isTouched: false,
        isPresent: false,
        raw: "",
        members: [],
        items: [],
        level,
    };
    return filled(form, field);
}

/** Adds an absent object or list with its defaults. */
export function addPart(form, field) {
    const { plan } = field;
    const fallback = plan.kind === "object" ? {} : [];
    const given = plan.schema.default;
    const value = given !== undefined && given !== null && fits(plan, given) ? given : undefined;
    field.isPresent = true;
    field.isTouched = true;
    fillParts(form, field, value ?? fallback, { useDefaults: value === undefined });
}

/** Removes an object or a list: it becomes null if the schema allows it, otherwise absent. */
export function removePart(field) {
    field.isPresent = false;
    field.isTouched = true;
    field.members = [];
    field.items = [];
    field.extra = undefined;
}

export function addItem(form, field) {
    const item = makeField(form, field.plan.schema.items, { isRequired: true, useDefaults: true, level: field.level + 1 });
    field.items.push(item);
    field.isTouched = true;
    return item;
}

export function removeItem(field, position) {
    field.items.splice(position, 1);
    field.isTouched = true;
}

export function moveItem(field, from, to) {
    const [item] = field.items.splice(from, 1);
    field.items.splice(to, 0, item);
    field.isTouched = true;
}

/** Yields the field and all fields below it, with their JSON pointers. */
export function* fieldsOf(field, pointer = "") {
    yield { field, pointer };
    for (const member of field.members) {
        yield* fieldsOf(member, `${pointer}/${escaped(member.name)}`);
    }
    for (const [index, item] of field.items.entries()) {
        yield* fieldsOf(item, `${pointer}/${index}`);
    }
}

export function escaped(name) {
    return String(name).replaceAll("~", "~0").replaceAll("/", "~1");
}

function isShowable(plan, value) {
    if (value === undefined || (value === null && plan.isNullable)) {
        return true;
    }
    const isTooLong = plan.kind === "list" && Array.isArray(value) && value.length > ITEMS_MAX;
    return fits(plan, value) && !isTooLong;
}

function asJson(plan, schema) {
    return { ...plan, kind: "json", schema: isObject(schema) ? schema : {} };
}

function filled(form, field) {
    const { plan, initial } = field;
    const isGiven = initial !== undefined && initial !== null;
    if (plan.kind === "text" || plan.kind === "number") {
        field.raw = isGiven ? String(initial) : "";
    } else if (plan.kind === "choice") {
        field.raw = initial === undefined ? (field.isRequired && plan.choices.length === 1 ? 0 : -1) : choiceOf(plan, initial);
    } else if (plan.kind === "choices") {
        field.raw = new Set((initial ?? []).map((value) => choiceOf(plan, value)));
    } else if (plan.kind === "json") {
        field.raw = initial === undefined ? "" : JSON.stringify(initial, null, 2);
    } else {
        field.isPresent = isGiven || (field.isRequired && initial === undefined);
        if (field.isPresent) {
            const fallback = plan.kind === "object" ? {} : [];
            fillParts(form, field, initial ?? fallback, { useDefaults: initial === undefined });
        }
    }
    return field;
}

function fillParts(form, field, value, { useDefaults }) {
    const { plan } = field;
    const level = field.level + 1;
    if (plan.kind === "list") {
        field.items = value.map((item) => makeField(form, plan.schema.items, { value: item, isRequired: true, useDefaults: false, level }));
        return;
    }
    const known = new Set(plan.members.map(({ name }) => name));
    field.members = plan.members.map(({ name, schema, isRequired }) => {
        const own = Object.hasOwn(value, name) ? value[name] : undefined;
        return { ...makeField(form, schema, { value: own, isRequired, useDefaults, level }), name };
    });
    const others = Object.entries(value).filter(([name]) => !known.has(name));
    if (others.length > 0) {
        field.extra = makeField(form, {}, { value: Object.fromEntries(others), isRequired: false, useDefaults: false, level });
    }
}
