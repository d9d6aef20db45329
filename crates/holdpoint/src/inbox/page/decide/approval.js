//! Approvals: the content to decide on, the actions of the gate, and the changes since the previous version.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact, kindOf } from "../show/artifact.js";
import { diff } from "../show/diff.js";
import { markdown } from "../show/markdown.js";
import { text } from "../show/text.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { actionsOf, furtherMembers, isSame, nameOf } from "./model.js";
import { refineWay } from "./refine.js";

const OWN_MEMBERS = ["action", "feedback", "decision", "reason", "refineFeedback", "editedArtifactData", "question"];
const QUESTION_MAX = 4096;
const MARKED = /[*_`[\]|#>]|^\s*(-|\d+[.)])\s/m;

/** @param {import("./model.js").Interrupt} interrupt */
export function approvalWays(interrupt, tools) {
    const makers = { accept: acceptWay, reject: rejectWay, refine: refineWay, "edit-accept": editWay, ask: askWay };
    return actionsOf(interrupt)
        .filter((action) => Object.hasOwn(makers, action))
        .map((action) => makers[action](interrupt, tools));
}

export function approvalContent(interrupt, { before, now }) {
    return [describedAs(interrupt.data.description), before ? sinceBefore(before, interrupt, now) : null, attached(interrupt.data)];
}

/** Describes the attached content; null if there is neither content nor a description. */
function attached({ description, artifactData, artifactType }) {
    const isNothing = artifactData === undefined || isSame(artifactData, {});
    if (isNothing && !hasWords(description)) {
        return null;
    }
    return h(
        "section",
        { class: "shown", "aria-labelledby": "shown-heading" },
        h("h2", { id: "shown-heading" }, texts.artifact),
        isNothing ? h("p", { class: "nothing" }, texts.nothingShown) : artifact(artifactData, artifactType),
    );
}

/** Describes the text `description` of an interrupt: as Markdown if it contains Markdown syntax, otherwise as text. */
export function describedAs(words) {
    if (!hasWords(words)) {
        return null;
    }
    return h("div", { class: "untrusted description" }, isMarked(words) ? markdown(words) : text(words));
}

function hasWords(text) {
    return typeof text === "string" && text.trim() !== "";
}

/** Returns whether a text contains Markdown syntax. */
export function isMarked(words) {
    return MARKED.test(words);
}

function sinceBefore(before, interrupt) {
    const feedback = before.decision?.value?.refineFeedback ?? {};
    const who = nameOf(before.decision?.value?.decidedBy ?? before.decision?.by);
    const words = [
        feedback.text,
        feedback.sectionPath && `${texts.section}: ${feedback.sectionPath}`,
        ...(Array.isArray(feedback.itemIds) ? feedback.itemIds : []),
        ...(Array.isArray(feedback.tags) ? feedback.tags : []),
    ];
    const lines = words.filter((word) => typeof word === "string" && word !== "");
    const isEqual = isSame(before.data.artifactData, interrupt.data.artifactData);
    return h(
        "details",
        { class: "since", open: true },
        h("summary", {}, texts.sincePrevious),
        lines.length > 0
            ? h("div", { class: "wish" }, h("p", {}, texts.requestedChanges(who)), artifact(lines.join("\n"), "text/plain"))
            : null,
        isEqual
            ? h("p", { class: "nothing" }, texts.noChanges)
            : diff(before.data.artifactData ?? null, interrupt.data.artifactData ?? null),
    );
}

function acceptWay(interrupt, tools) {
    const extra = extraForm(interrupt, tools, "accept");
    return {
        id: "accept",
        label: texts.accept,
        look: "accept",
        key: "a",
        fields: extra,
        build: (value) => ({ ...value, action: "accept" }),
    };
}

export function rejectWay(interrupt, tools, { label = texts.reject, about = texts.reasonHint } = {}) {
    const reasons = textForm(
        { feedback: { title: texts.reason, description: about, format: "textarea", type: "string" } },
        [],
        tools,
        "reject",
    );
    const fields = withExtra(reasons, interrupt, tools, "reject");
    return { id: "reject", label, look: "reject", key: "r", fields, build: (value) => ({ ...filled(value), action: "reject" }) };
}

export function askWay(_interrupt, tools) {
    const schema = {
        question: {
            title: texts.question,
            description: texts.questionHint,
            type: "string",
            format: "textarea",
            minLength: 1,
            maxLength: QUESTION_MAX,
        },
    };
    const fields = textForm(schema, ["question"], tools, "ask");
    return {
        id: "ask",
        label: texts.ask,
        look: "plain",
        fields,
        submit: texts.ask,
        build: (value) => ({ ...value, action: "ask" }),
    };
}

function editWay(interrupt, tools) {
    const { artifactData, artifactType } = interrupt.data;
    const editor = editorFor(artifactData, artifactType, `${tools.id}-edit`, tools.change);
    return {
        id: "edit-accept",
        label: texts.edit,
        look: "plain",
        key: "e",
        fields: editor,
        prefix: "resumeValue.editedArtifactData",
        build: (value) => ({ action: "edit-accept", editedArtifactData: value }),
        review: (value) => changeReview(artifactData ?? null, value),
        isUnchanged: (value) => isSame(artifactData, value),
    };
}

/** Creates an editor for a text or for JSON with the current value. */
export function editorFor(value, type, id, change, title = texts.edited) {
    const isText = typeof value === "string";
    const format = kindOf(type) === "markdown" ? "markdown" : "textarea";
    const schema = isText ? { type: "string", format, title } : { title };
    return form(schema, { value: value === undefined ? null : value, id, change, names: { "": title } });
}

export function changeReview(before, after) {
    return h("div", { class: "review" }, h("h4", {}, texts.changes), diff(before, after, { layout: "sides" }));
}

/** Creates a form for the members that `resumeSchema` requires in addition to those of an approval. */
function extraForm(interrupt, tools, name) {
    const schema = furtherMembers(interrupt.resumeSchema, OWN_MEMBERS);
    return schema ? form(schema, { id: `${tools.id}-${name}-extra`, change: tools.change }) : undefined;
}

function withExtra(fields, interrupt, tools, name) {
    const schema = furtherMembers(interrupt.resumeSchema, OWN_MEMBERS);
    if (!schema) {
        return fields;
    }
    const properties = { feedback: { title: texts.reason, type: "string", format: "textarea" }, ...schema.properties };
    return form({ ...schema, properties }, { id: `${tools.id}-${name}-extra`, change: tools.change });
}

export function textForm(properties, required, tools, name) {
    return form({ type: "object", properties, required }, { id: `${tools.id}-${name}`, change: tools.change });
}

/** Removes empty and undefined members: an empty reason is not sent. */
export function filled(value) {
    return Object.fromEntries(Object.entries(value ?? {}).filter(([, part]) => part !== "" && part !== undefined));
}
