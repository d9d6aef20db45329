//! Describes the fields of a form: labels, groups with legends, and errors at their fields.

import { h } from "../dom.js";
import { visible } from "../show/characters.js";
import { portions } from "../show/text.js";
import { form as texts } from "../texts/form.js";
import { errorLine } from "./errors.js";
import { jsonEditor } from "./json_editor.js";
import { hintsOf, labelOf } from "./labels.js";
import { drawList } from "./lists.js";
import { addPart, escaped, removePart } from "./state.js";

const RADIOS_MAX = 6;
const ABOUT_CHARACTERS = 600;
const LONG_TEXT = 80;
const INPUT_TYPES = new Map([["email", "email"], ["uri", "url"], ["password", "password"]]);
const LOCAL_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/;

/**
 * @param {Object} state of the form
 * @param {import("./state.js").Field} field
 * @param {string} pointer
 * @param {Object<string, string>} errors by JSON pointer
 */
export function drawField(state, field, pointer, errors) {
    const id = `${state.id}-${field.id}`;
    const view = { state, field, pointer, errors, id, label: labelOf(state, field, pointer), error: errors[pointer] };
    return DRAWN[field.plan.kind](view);
}

const DRAWN = {
    text: textField,
    number: numberField,
    choice: choiceField,
    choices: choicesField,
    object: objectField,
    list: listField,
    json: jsonField,
};

function textField(view) {
    const { field } = view;
    const { schema } = field.plan;
    const type = textType(field);
    const attributes = {
        ...control(view),
        type,
        value: type === "datetime-local" ? localTime(field.raw) : field.raw,
        step: type === "datetime-local" ? 1 : undefined,
        dir: "auto",
        autocomplete: "off",
        on: { input: (event) => typed(view, event.target.value) },
    };
    if (type !== "textarea") {
        return labelled(view, h("input", attributes));
    }
    const { type: _type, step: _step, ...rest } = attributes;
    return labelled(view, h("textarea", { ...rest, rows: schema.format === "markdown" ? 10 : 4 }));
}

/**
 * Returns the type of a text field. Depends on the initial value only: the type must not change while the user
 * types.
 */
function textType({ plan: { schema }, initial }) {
    const text = typeof initial === "string" ? initial : "";
    const { format } = schema;
    const isMultiline = ["textarea", "multiline", "markdown"].includes(format) || schema.maxLength > 200 || schema.minLength > LONG_TEXT;
    if (isMultiline || text.includes("\n") || text.length > LONG_TEXT) {
        return "textarea";
    }
    if (format === "date" && (text === "" || /^\d{4}-\d\d-\d\d$/.test(text))) {
        return "date";
    }
    if (format === "date-time" && (text === "" || localTime(text) !== "")) {
        return "datetime-local";
    }
    return INPUT_TYPES.get(format) ?? "text";
}

function localTime(raw) {
    if (LOCAL_TIME.test(raw)) {
        return raw;
    }
    const time = new Date(raw);
    if (raw === "" || Number.isNaN(time.getTime())) {
        return "";
    }
    const two = (value) => String(value).padStart(2, "0");
    const date = [String(time.getFullYear()).padStart(4, "0"), two(time.getMonth() + 1), two(time.getDate())].join("-");
    return `${date}T${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

// Not `type=number`: the mouse wheel changes it, and it does not report invalid input.
function numberField(view) {
    const { field } = view;
    const inputmode = field.plan.isInteger && field.plan.schema.minimum >= 0 ? "numeric" : "text";
    const attributes = { ...control(view), type: "text", inputmode, value: field.raw, autocomplete: "off", dir: "ltr", class: "number" };
    return labelled(view, h("input", { ...attributes, on: { input: (event) => typed(view, event.target.value) } }));
}

function jsonField(view) {
    const { field, id, label, state } = view;
    const leave = () => field.isTouched && state.change({ isShape: true });
    const change = (raw) => typed(view, raw);
    const editor = jsonEditor({ id, value: field.raw, isTouched: field.isTouched, describedBy: control(view), change, leave });
    return h("div", { class: "field field-json", key: id }, labelFor(view, label), about(view), editor, errorLine(id, view.error));
}

function choiceField(view) {
    const { field, id, state } = view;
    const { choices } = field.plan;
    const choose = (index) => {
        field.raw = index;
        field.isTouched = true;
        state.change({ isShape: false });
    };
    if (choices.length > RADIOS_MAX) {
        const none = h("option", { value: "-1" }, field.isRequired ? texts.choose : texts.noAnswer);
        const options = choices.map(({ label }, index) => h("option", { value: String(index) }, label));
        const on = { change: (event) => choose(Number(event.target.value)) };
        return labelled(view, h("select", { ...control(view), value: String(field.raw), on }, none, options));
    }
    const shown = choices.map(({ label }, index) => ({ label, index }));
    const all = field.isRequired ? shown : [...shown, { label: texts.noAnswer, index: -1 }];
    const radios = all.map(({ label, index }, position) => {
        const on = { change: () => choose(index) };
        const attributes = { ...optionId(view, position), type: "radio", name: id, value: String(index), checked: field.raw === index, on };
        return h("div", { class: "option" }, h("input", attributes), h("label", { for: attributes.id, dir: "auto" }, label));
    });
    return group(view, radios, { role: "radiogroup", ...describedBy(view) });
}

function choicesField(view) {
    const { field, id, state } = view;
    const boxes = field.plan.choices.map(({ label }, index) => {
        const change = (event) => {
            field.raw[event.target.checked ? "add" : "delete"](index);
            field.isTouched = true;
            state.change({ isShape: false });
        };
        const checked = field.raw.has(index);
        const attributes = { ...optionId(view, index), type: "checkbox", name: id, value: String(index), checked, on: { change } };
        const invalid = view.error !== undefined ? { "aria-invalid": true } : {};
        return h("div", { class: "option" }, h("input", { ...attributes, ...invalid }), h("label", { for: attributes.id, dir: "auto" }, label));
    });
    return group(view, boxes, { "aria-describedby": describedBy(view)["aria-describedby"] });
}

/** Returns the id of an option. The first option has the id of the group, so that links to the group focus it. */
function optionId({ id, state }, position) {
    return position === 0 ? { id, autofocus: state.focus === id } : { id: `${id}-option-${position}` };
}

function objectField(view) {
    const { field, id, pointer, state, errors } = view;
    if (!field.isPresent) {
        return missing(view);
    }
    const members = field.members.map((member) => drawField(state, member, `${pointer}/${escaped(member.name)}`, errors));
    const content = [members, field.extra && otherMembers(view), removal(view)];
    if (pointer === "") {
        return h("div", { class: "members", id, tabindex: -1, key: id }, about(view), errorLine(id, view.error), content);
    }
    return group(view, content, { id, tabindex: -1, "aria-describedby": describedBy(view)["aria-describedby"] });
}

function otherMembers({ state, field }) {
    const id = `${state.id}-${field.extra.id}`;
    const view = { state, field: field.extra, pointer: "", errors: {}, id, label: texts.otherMembers };
    return jsonField(view);
}

function listField(view) {
    if (!view.field.isPresent) {
        return missing(view);
    }
    const content = [drawList(view, drawField), removal(view)];
    return group(view, content, { id: view.id, tabindex: -1, "aria-describedby": describedBy(view)["aria-describedby"] });
}

/** Describes an absent optional part, with a button that adds it. */
function missing(view) {
    const { field, id, label, state } = view;
    const add = () => {
        addPart(state, field);
        state.focus = id;
        state.change({ isShape: true });
    };
    const described = { "aria-describedby": describedBy(view)["aria-describedby"] };
    const button = { id, type: "button", class: "add", autofocus: state.focus === id, ...described, on: { click: add } };
    return h(
        "div",
        { class: "field field-missing", key: id },
        about(view),
        h("button", button, texts.add(label)),
        h("span", { class: "not-given" }, texts.notGiven),
        errorLine(id, view.error),
    );
}

function removal(view) {
    const { field, id, label, state, pointer } = view;
    if ((field.isRequired && !field.plan.isNullable) || pointer === "") {
        return null;
    }
    const remove = () => {
        removePart(field);
        state.focus = id;
        state.change({ isShape: true });
    };
    return h("button", { type: "button", class: "remove", on: { click: remove } }, texts.remove(label));
}

function typed({ field, state }, raw) {
    field.raw = raw;
    field.isTouched = true;
    state.change({ isShape: false });
}

function labelled(view, control) {
    return h("div", { class: "field", key: view.id }, labelFor(view, view.label), about(view), control, errorLine(view.id, view.error));
}

function labelFor({ id, field }, label) {
    return h("label", { for: id, dir: "auto" }, label, optional(field));
}

function group(view, content, attributes) {
    const { id, label, field, state } = view;
    const focus = attributes.id !== undefined && state.focus === id;
    const shared = { class: `field field-${field.plan.kind}`, key: id, autofocus: focus, ...attributes };
    return h("fieldset", shared, h("legend", { dir: "auto" }, label, optional(field)), about(view), content, errorLine(id, view.error));
}

function optional(field) {
    return field.isRequired ? null : h("span", { class: "optional" }, ` ${texts.optional}`);
}

function aboutParts({ field }) {
    const { description } = field.plan.schema;
    const hints = hintsOf(field.plan).join(" · ");
    return { description: typeof description === "string" && description.trim() !== "" ? description : null, hints };
}

function about(view) {
    const { description, hints } = aboutParts(view);
    if (!description && hints === "") {
        return null;
    }
    const words = description && h("p", { dir: "auto" }, portions(description, ABOUT_CHARACTERS));
    return h("div", { class: "field-about", id: `${view.id}-about` }, words, hints !== "" && h("p", { class: "hint" }, visible(hints)));
}

function control(view) {
    return { ...describedBy(view), id: view.id, autofocus: view.state.focus === view.id };
}

/** Returns the ARIA attributes that connect a field to its description and error. */
function describedBy(view) {
    const { id, error, field } = view;
    const { description, hints } = aboutParts(view);
    const ids = [(description || hints !== "") && `${id}-about`, error !== undefined && `${id}-error`].filter(Boolean);
    return {
        "aria-describedby": ids.length > 0 ? ids.join(" ") : undefined,
        "aria-invalid": error !== undefined ? true : undefined,
        "aria-required": field.isRequired ? true : undefined,
    };
}
