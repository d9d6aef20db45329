//! Change requests: for everything, for one section or for some items, with a text and tags.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { shortText } from "../show/characters.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { composite } from "./composite.js";
import { isObject } from "./model.js";

const SECTIONS_MAX = 60;
const ITEMS_MAX = 60;
const LABEL_CHARACTERS = 100;

/** @returns {import("./panel.js").Way} */
export function refineWay(interrupt, tools) {
    const state = { scope: "whole" };
    const make = (name, schema) => form(schema, { id: `${tools.id}-refine-${name}`, change: tools.change });
    const { artifactData } = interrupt.data;
    const parts = [
        { name: "sectionPath", form: make("section", sectionSchema(artifactData)), isShown: () => state.scope === "section" },
        { name: "itemIds", form: make("items", itemsSchema(artifactData)), isShown: () => state.scope === "items" },
        { name: "text", form: make("text", { type: "string", format: "textarea", title: texts.feedback }), isOptional: true },
        {
            name: "tags",
            form: make("tags", { type: "array", title: texts.tags, items: { type: "string", minLength: 1 }, default: [] }),
        },
    ];
    const fields = composite(parts, () => choice(state, tools));
    return {
        id: "refine",
        label: texts.refine,
        look: "plain",
        fields,
        prefix: "resumeValue.refineFeedback",
        check: checkFeedback,
        build: (value) => ({ action: "refine", refineFeedback: feedbackOf(state.scope, value) }),
    };
}

export function feedbackOf(scope, value) {
    const feedback = { scope };
    for (const name of ["sectionPath", "itemIds", "text", "tags"]) {
        const part = value?.[name];
        const isEmpty = part === undefined || part === "" || (name === "tags" && part.length === 0);
        if (!isEmpty) {
            feedback[name] = part;
        }
    }
    return feedback;
}

/** Rejects feedback without text and tags. The server accepts it, but the author of the next version needs either. */
function checkFeedback({ text, tags }) {
    return (text ?? "").trim() === "" && (tags ?? []).length === 0 ? { "/text": texts.feedbackNeeded } : {};
}

function choice(state, tools) {
    const radio = (scope) => {
        const id = `${tools.id}-scope-${scope}`;
        const chosen = () => {
            state.scope = scope;
            tools.redraw();
        };
        return h(
            "div",
            { class: "option" },
            h("input", {
                type: "radio",
                id,
                name: `${tools.id}-scope`,
                value: scope,
                checked: state.scope === scope,
                on: { change: chosen },
            }),
            h("label", { for: id }, texts.scopes[scope]),
        );
    };
    return h("fieldset", { class: "field", key: "scope" }, h("legend", {}, texts.scope), Object.keys(texts.scopes).map(radio));
}

/**
 * Returns the schema of the section: a choice of the headings of a text or the members of an object, otherwise a
 * path.
 */
export function sectionSchema(value) {
    const names = typeof value === "string" ? headings(value) : isObject(value) ? Object.keys(value) : [];
    const known = [...new Set(names)].filter((name) => name !== "").slice(0, SECTIONS_MAX);
    if (known.length === 0) {
        return { type: "string", title: texts.section, minLength: 1 };
    }
    return { title: texts.section, oneOf: known.map((name) => ({ const: name, title: shortText(name, LABEL_CHARACTERS) })) };
}

function headings(text) {
    return Array.from(text.matchAll(/^#{1,6}[ \t]+(.+?)[ \t]*#*$/gm), (found) => found[1].trim());
}

/** Returns the schema of the items: a choice of the items with ids, otherwise a list of ids. */
export function itemsSchema(value) {
    const ids = itemIds(value).slice(0, ITEMS_MAX);
    const title = texts.items;
    if (ids.length === 0) {
        return { type: "array", title, description: texts.itemsHint, minItems: 1, items: { type: "string", minLength: 1 } };
    }
    return {
        type: "array",
        title,
        uniqueItems: true,
        minItems: 1,
        items: { oneOf: ids.map(({ id, label }) => ({ const: id, title: label })) },
    };
}

function itemIds(value) {
    const lists = Array.isArray(value) ? [value] : isObject(value) ? Object.values(value).filter(Array.isArray) : [];
    const found = new Map();
    for (const item of lists.flat()) {
        const id = isObject(item) ? (item.id ?? item.key) : undefined;
        if (typeof id === "string" && id !== "" && !found.has(id)) {
            const words = Object.values(item).find((part) => typeof part === "string" && part !== id);
            found.set(id, { id, label: shortText(words ? `${id}: ${words}` : id, LABEL_CHARACTERS) });
        }
    }
    return Array.from(found.values());
}
