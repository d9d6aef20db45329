//! Custom interrupts: their content, and a form from their schema. If the schema is a choice of actions, each action
//! gets a button.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { shortText } from "../show/characters.js";
import { interrupt as texts } from "../texts/interrupt.js";
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
    // The message is the headline of the page; the rest is shown here.
    const { message: _message, description, ...rest } = isObject(shown) ? shown : {};
    const others = isObject(shown) ? (Object.keys(rest).length > 0 ? rest : undefined) : shown;
    return [troubleOf(data), describedAs(description), others === undefined ? null : shownSection(others, data)];
}

/** Describes the data. The draft of a content review comes first, the other members follow. */
function shownSection(value, data) {
    const { draft, ...about } = isObject(value) ? value : {};
    const isReview = data.customKind === "content_review" && typeof draft === "string";
    return h(
        "section",
        { class: "shown", "aria-labelledby": "shown-heading" },
        h("h2", { id: "shown-heading" }, isReview ? texts.artifact : texts.shownData),
        isReview ? [artifact(draft, "text/markdown"), h("h3", {}, texts.details), artifact(about)] : artifact(value),
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

export function customWays(interrupt, tools) {
    const { resumeSchema } = interrupt;
    const member = CHOICES.find((name) => isChoice(resumeSchema, name));
    if (member) {
        return resumeSchema.properties[member].enum.map((value) => choiceWay(interrupt, tools, member, value));
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

/** Creates the button for one action. The answer includes the constants of the schema; shown texts can be edited. */
function choiceWay(interrupt, tools, member, value) {
    const { shape, constants, present } = choiceShape(interrupt, member);
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

export function choiceShape(interrupt, member) {
    const { properties, required = [] } = interrupt.resumeSchema;
    const shown = shownData(interrupt.data);
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

/** Creates the form for several requests. The requests without an answer are opened again. */
export function multiWays(interrupt, tools) {
    const items = itemsOf(interrupt.data);
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

/** Creates a form whose value is undefined while it is untouched. */
function optionalForm(schema, options) {
    const inner = form(schema, options);
    return { ...inner, read: () => (inner.isTouched() ? inner.read() : { value: undefined, errors: {} }) };
}
