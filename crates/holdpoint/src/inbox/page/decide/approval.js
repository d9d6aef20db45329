//! An approval: what is to be decided, the ways its gate offers, and what changed since somebody wished for changes.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact, kindOf } from "../show/artifact.js";
import { diff } from "../show/diff.js";
import { markdown } from "../show/markdown.js";
import { text } from "../show/text.js";
import { pause as texts } from "../texts/pause.js";
import { actionsOf, furtherMembers, isSame, nameOf } from "./model.js";
import { refineWay } from "./refine.js";

const OWN_MEMBERS = ["action", "feedback", "decision", "reason", "refineFeedback", "editedArtifactData", "question"];
const QUESTION_MAX = 4096;
const MARKED = /[*_`[\]|#>]|^\s*(-|\d+[.)])\s/m;

/** @param {import("./model.js").Pause} pause */
export function approvalWays(pause, tools) {
    const makers = { accept: acceptWay, reject: rejectWay, refine: refineWay, "edit-accept": editWay, ask: askWay };
    return actionsOf(pause)
        .filter((action) => Object.hasOwn(makers, action))
        .map((action) => makers[action](pause, tools));
}

export function approvalContent(pause, { before, now }) {
    return [describedAs(pause.data.description), before ? sinceBefore(before, pause, now) : null, attached(pause.data)];
}

/** What is to be decided. Where a title is all there is, nothing more is said of that. */
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

/** A description is a text of the workflow's; where it has marks of Markdown it reads as such. */
export function describedAs(words) {
    if (!hasWords(words)) {
        return null;
    }
    return h("div", { class: "untrusted description" }, isMarked(words) ? markdown(words) : text(words));
}

function hasWords(text) {
    return typeof text === "string" && text.trim() !== "";
}

/** Whether a text would read otherwise as Markdown. */
export function isMarked(words) {
    return MARKED.test(words);
}

function sinceBefore(before, pause) {
    const wish = before.decision?.value?.refineFeedback ?? {};
    const who = nameOf(before.decision?.value?.decidedBy ?? before.decision?.by);
    const words = [
        wish.text,
        wish.sectionPath && `${texts.section}: ${wish.sectionPath}`,
        ...(Array.isArray(wish.itemIds) ? wish.itemIds : []),
        ...(Array.isArray(wish.tags) ? wish.tags : []),
    ];
    const said = words.filter((word) => typeof word === "string" && word !== "");
    const isEqual = isSame(before.data.artifactData, pause.data.artifactData);
    return h(
        "details",
        { class: "since", open: true },
        h("summary", {}, texts.sincePrevious),
        said.length > 0
            ? h("div", { class: "wish" }, h("p", {}, texts.wished(who)), artifact(said.join("\n"), "text/plain"))
            : null,
        isEqual
            ? h("p", { class: "nothing" }, texts.asBefore)
            : diff(before.data.artifactData ?? null, pause.data.artifactData ?? null),
    );
}

function acceptWay(pause, tools) {
    const extra = extraForm(pause, tools, "accept");
    return {
        id: "accept",
        label: texts.accept,
        look: "accept",
        key: "a",
        fields: extra,
        build: (value) => ({ ...value, action: "accept" }),
    };
}

export function rejectWay(pause, tools, { label = texts.reject, about = texts.whyHint } = {}) {
    const reasons = textForm(
        { feedback: { title: texts.why, description: about, format: "textarea", type: "string" } },
        [],
        tools,
        "reject",
    );
    const fields = withExtra(reasons, pause, tools, "reject");
    return { id: "reject", label, look: "reject", key: "r", fields, build: (value) => ({ ...filled(value), action: "reject" }) };
}

export function askWay(_pause, tools) {
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

function editWay(pause, tools) {
    const { artifactData, artifactType } = pause.data;
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
        isEmptyHanded: (value) => isSame(artifactData, value),
    };
}

/** An editor for a text or for JSON, with what is there now. */
export function editorFor(value, type, id, change, title = texts.edited) {
    const isText = typeof value === "string";
    const format = kindOf(type) === "markdown" ? "markdown" : "textarea";
    const schema = isText ? { type: "string", format, title } : { title };
    return form(schema, { value: value === undefined ? null : value, id, change, names: { "": title } });
}

export function changeReview(before, after) {
    return h("div", { class: "review" }, h("h4", {}, texts.changes), diff(before, after, { layout: "sides" }));
}

/** What a `resumeSchema` wants beside the words of an approval. */
function extraForm(pause, tools, name) {
    const schema = furtherMembers(pause.resumeSchema, OWN_MEMBERS);
    return schema ? form(schema, { id: `${tools.id}-${name}-extra`, change: tools.change }) : undefined;
}

function withExtra(fields, pause, tools, name) {
    const schema = furtherMembers(pause.resumeSchema, OWN_MEMBERS);
    if (!schema) {
        return fields;
    }
    const properties = { feedback: { title: texts.why, type: "string", format: "textarea" }, ...schema.properties };
    return form({ ...schema, properties }, { id: `${tools.id}-${name}-extra`, change: tools.change });
}

export function textForm(properties, required, tools, name) {
    return form({ type: "object", properties, required }, { id: `${tools.id}-${name}`, change: tools.change });
}

/** Without texts that nobody wrote: an empty reason is no reason. */
export function filled(value) {
    return Object.fromEntries(Object.entries(value ?? {}).filter(([, part]) => part !== "" && part !== undefined));
}
