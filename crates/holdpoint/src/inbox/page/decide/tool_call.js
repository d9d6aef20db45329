//! A call of a tool that somebody must allow, and what a tool itself wants to know before it goes on.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { visible } from "../show/characters.js";
import { pause as texts } from "../texts/pause.js";
import { approvalWays, changeReview, describedAs, rejectWay, textForm, filled } from "./approval.js";
import { isObject, isSame, nameOf } from "./model.js";

/** What is to be called, as agents and as providers write it. */
export function callOf({ data }) {
    const { toolCall, artifactData } = data;
    if (isObject(toolCall)) {
        return { name: toolCall.name, arguments: toolCall.arguments, member: "arguments" };
    }
    const shown = isObject(artifactData) ? artifactData : {};
    return "input" in shown
        ? { name: shown.tool, arguments: shown.input, member: "input" }
        : { name: shown.name ?? shown.tool, arguments: shown.arguments, member: "arguments" };
}

export function toolContent(pause) {
    const { data } = pause;
    const call = callOf(pause);
    const isEmpty = call.arguments === undefined || isSame(call.arguments, {});
    return [
        describedAs(wordsOf(pause)),
        isUnsure(data) ? h("p", { class: "notice notice-warn" }, texts.outcomeUnknown) : null,
        h(
            "section",
            { class: "shown", "aria-labelledby": "shown-heading" },
            h("h2", { id: "shown-heading" }, `${texts.tool}: `, h("code", {}, nameOf(call.name))),
            isEmpty
                ? h("p", { class: "nothing" }, texts.noArguments)
                : [h("h3", {}, texts.arguments), artifact(call.arguments, "tool.call")],
        ),
        typeof data.callDigest === "string"
            ? h(
                  "details",
                  { class: "call-digest source" },
                  h("summary", {}, texts.callDigest),
                  h("code", { dir: "ltr" }, visible(data.callDigest)),
              )
            : null,
    ];
}

/** What is said about the call; a question's own words are its headline already. */
function wordsOf({ kind, data }) {
    return kind === "approval" ? (data.suspension?.message ?? data.description) : data.description;
}

function isUnsure(data) {
    return data.suspension?.action === "tool:OutcomeUnknown";
}

/** @param {import("./model.js").Pause} pause */
export function toolWays(pause, tools) {
    const unsure = isUnsure(pause.data);
    return approvalWays(pause, tools).map((way) => {
        if (way.id === "accept") {
            return { ...way, label: unsure ? texts.callAgain : texts.allow };
        }
        if (way.id === "reject") {
            return rejectWay(pause, tools, { label: unsure ? texts.leaveIt : texts.deny });
        }
        return way.id === "edit-accept" ? (unsure ? resultWay(tools) : changeWay(pause, tools)) : way;
    });
}

/** Other arguments than the agent wanted. */
function changeWay(pause, tools) {
    const call = callOf(pause);
    const before = call.arguments ?? {};
    const edited = (value) => (call.member === "input" ? { tool: call.name, input: value } : { arguments: value });
    return {
        id: "edit-accept",
        label: texts.change,
        look: "plain",
        key: "e",
        fields: form(argumentsSchema(before), {
            value: before,
            id: `${tools.id}-arguments`,
            change: tools.change,
            names: { "": texts.editedArguments },
        }),
        prefix: `resumeValue.editedArtifactData.${call.member}`,
        build: (value) => ({ action: "edit-accept", editedArtifactData: edited(value) }),
        review: (value) => changeReview(before, value),
        isEmptyHanded: (value) => isSame(before, value),
    };
}

/** Flat arguments have a field each; anything deeper is edited as JSON. The tool's own schema is not told to approvers. */
export function argumentsSchema(value) {
    const names = isObject(value) ? Object.keys(value) : [];
    const types = names.map((name) => typeof value[name]);
    if (names.length === 0 || !types.every((type) => ["string", "number", "boolean"].includes(type))) {
        return {};
    }
    const properties = Object.fromEntries(names.map((name, index) => [name, { type: types[index] }]));
    return { type: "object", properties, required: names };
}

function resultWay(tools) {
    return {
        id: "edit-accept",
        label: texts.tellResult,
        look: "plain",
        key: "e",
        fields: form({}, { id: `${tools.id}-result`, change: tools.change, names: { "": texts.result } }),
        prefix: "resumeValue.editedArtifactData.result",
        build: (value) => ({ action: "edit-accept", editedArtifactData: { result: value } }),
    };
}

/** A tool that wants to know something: go on with an answer, or cancel its call. */
export function toolQuestionWays(pause, tools) {
    const { suspension, resumeMode } = pause.data;
    const schema = suspension?.response_schema ?? suspension?.responseSchema;
    const wantsAnswer =
        isObject(schema) || resumeMode === "use_decision_as_tool_result" || resumeMode === "pass_decision_to_tool";
    const options = { id: `${tools.id}-resume`, change: tools.change, names: { "": texts.value } };
    const resume = {
        id: "resume",
        label: texts.goOn,
        look: "accept",
        key: "a",
        isOpen: wantsAnswer,
        fields: wantsAnswer ? form(isObject(schema) ? schema : {}, options) : undefined,
        prefix: "resumeValue.result",
        build: (value) => (wantsAnswer ? { action: "resume", result: value } : { action: "resume" }),
    };
    const reason = { reason: { title: texts.why, description: texts.whyHint, type: "string", format: "textarea" } };
    const fields = textForm(reason, [], tools, "cancel");
    const cancel = {
        id: "cancel",
        label: texts.cancelCall,
        look: "reject",
        key: "r",
        fields,
        build: (value) => ({ ...filled(value), action: "cancel" }),
    };
    return [resume, cancel];
}
