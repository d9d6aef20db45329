//! Pauses whose shape somebody else has made up: what they show, and a form from their schema. An answer that is a choice
//! among actions becomes a button for each of them.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { shortText } from "../show/characters.js";
import { pause as texts } from "../texts/pause.js";
import { describedAs } from "./approval.js";
import { composite } from "./composite.js";
import { isObject, isSame, itemsOf, nameOf, shownData } from "./model.js";

const CHOICES = ["action", "decision"];
const KEYS = {
    approve: "a",
    accept: "a",
    allow: "a",
    yes: "a",
    resume: "a",
    reject: "r",
    deny: "r",
    no: "r",
    cancel: "r",
    revise: "e",
    edit: "e",
};
const LABEL_CHARACTERS = 60;

export function customContent({ data }) {
    const shown = shownData(data);
    // The message is the headline; here stands what else there is.
    const { message: _message, description, ...rest } = isObject(shown) ? shown : {};
    const others = isObject(shown) ? (Object.keys(rest).length > 0 ? rest : undefined) : shown;
    return [troubleOf(data), describedAs(description), others === undefined ? null : shownSection(others, data)];
}

/** A text to review stands by itself; what is said about it comes after it. */
function shownSection(value, data) {
    const { draft, ...about } = isObject(value) ? value : {};
    const isReview = data.customKind === "content_review" && typeof draft === "string";
    return h(
        "section",
        { class: "shown", "aria-labelledby": "shown-heading" },
        h("h2", { id: "shown-heading" }, isReview ? texts.artifact : texts.shownHere),
        isReview ? [artifact(draft, "text/markdown"), h("h3", {}, texts.also), artifact(about)] : artifact(value),
    );
}

export function troubleOf(data) {
    if (!isObject(data.trouble)) {
        return null;
    }
    const { code, message } = data.trouble;
    return h(
        "div",
        { class: "notice notice-warn" },
        h("p", {}, texts.trouble),
        h("p", {}, `${nameOf(code)}: ${shortText(String(message ?? ""), 500)}`),
    );
}

export function customWays(pause, tools) {
    const { resumeSchema } = pause;
    const member = CHOICES.find((name) => isChoice(resumeSchema, name));
    if (member) {
        return resumeSchema.properties[member].enum.map((value) => choiceWay(pause, tools, member, value));
    }
    const schema = isObject(resumeSchema) ? resumeSchema : {};
    const fields = form(schema, { id: `${tools.id}-custom`, change: tools.change, names: { "": texts.value } });
    return [{ id: "send", label: texts.send, look: "accept", isOpen: true, fields, build: (value) => value }];
}

function isChoice(schema, name) {
    const choices = schema?.properties?.[name]?.enum;
    const isRequired = Array.isArray(schema?.required) && schema.required.includes(name);
    return (
        isRequired &&
        Array.isArray(choices) &&
        choices.length > 0 &&
        choices.length <= 6 &&
        choices.every((value) => typeof value === "string")
    );
}

/** One action of several. Constants of the schema go along; a text that is there already can be changed. */
function choiceWay(pause, tools, member, value) {
    const { shape, constants, present } = choiceShape(pause, member);
    const names = Object.keys(shape.properties);
    const key = Object.hasOwn(KEYS, value) ? KEYS[value] : undefined;
    const fields =
        names.length > 0 ? form(shape, { id: `${tools.id}-${value}`, value: present, change: tools.change }) : undefined;
    const own = (given) =>
        Object.fromEntries(
            Object.entries(given ?? {}).filter(
                ([name, part]) => part !== "" && !(name in present && isSame(part, present[name])),
            ),
        );
    return {
        id: `choice ${value}`,
        label: shortText(value.charAt(0).toUpperCase() + value.slice(1).replaceAll("_", " "), LABEL_CHARACTERS),
        look: key === "r" ? "reject" : key === "a" ? "accept" : "plain",
        key,
        fields,
        build: (given) => ({ ...own(given), ...constants, [member]: value }),
    };
}

export function choiceShape(pause, member) {
    const { properties, required = [] } = pause.resumeSchema;
    const shown = shownData(pause.data);
    const shape = { type: "object", properties: {}, required: [] };
    const constants = {};
    const present = {};
    for (const [name, schema] of Object.entries(properties)) {
        if (name === member) {
            continue;
        }
        if (isObject(schema) && "const" in schema) {
            constants[name] = schema.const;
            continue;
        }
        shape.properties[name] = schema;
        const there = isObject(shown) ? shown[name] : undefined;
        if (schema?.type === "string" && typeof there === "string") {
            present[name] = there;
        }
    }
    shape.required = required.filter((name) => name in shape.properties);
    return { shape, constants, present };
}

export function multiContent({ data }) {
    return [troubleOf(data), describedAs(data.message ?? data.description)];
}

/** Several questions in one: some may be answered now, and the rest is asked again. */
export function multiWays(pause, tools) {
    const items = itemsOf(pause.data);
    const parts = items.map((item, index) => {
        const schema = isObject(item.schema) ? item.schema : {};
        const title = nameOf(item.kind ?? item.key);
        const before = h(
            "div",
            { class: "multi-item" },
            h("h3", {}, title),
            item.data === undefined ? null : artifact(item.data),
        );
        return {
            name: item.key,
            before,
            form: optionalForm(schema, { id: `${tools.id}-multi-${index}`, change: tools.change, names: { "": texts.value } }),
        };
    });
    return [
        { id: "send", label: texts.sendAnswers, look: "accept", isOpen: true, fields: composite(parts), build: (value) => value },
    ];
}

/** A form that nobody has to fill in: untouched, it says nothing. */
function optionalForm(schema, options) {
    const inner = form(schema, options);
    return { ...inner, read: () => (inner.isTouched() ? inner.read() : { value: undefined, errors: {} }) };
}
