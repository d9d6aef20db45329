//! Tool calls that need an approval, and tools that need input before they continue.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { visible } from "../show/characters.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { approvalWays, changeReview, describedAs, rejectWay, textForm, filled } from "./approval.js";
import { isObject, isSame, nameOf } from "./model.js";

/** Returns the tool call from the data of an agent or of a provider. */
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

export function toolContent(interrupt) {
    const { data } = interrupt;
    const call = callOf(interrupt);
    const isEmpty = call.arguments === undefined || isSame(call.arguments, {});
    return [
        describedAs(descriptionOf(interrupt)),
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

/** Returns the description of the call. The message of a custom interrupt is its headline already. */
function descriptionOf({ kind, data }) {
    return kind === "approval" ? (data.suspension?.message ?? data.description) : data.description;
}

function isUnsure(data) {
    return data.suspension?.action === "tool:OutcomeUnknown";
}

/** @param {import("./model.js").Interrupt} interrupt */
export function toolWays(interrupt, tools) {
    const unsure = isUnsure(interrupt.data);
    return approvalWays(interrupt, tools).map((way) => {
        if (way.id === "accept") {
            return { ...way, label: unsure ? texts.callAgain : texts.acceptCall };
        }
        if (way.id === "reject") {
            return rejectWay(interrupt, tools, { label: unsure ? texts.doNotCallAgain : texts.rejectCall });
        }
        return way.id === "edit-accept" ? (unsure ? resultWay(tools) : changeWay(interrupt, tools)) : way;
    });
}

/** Creates the form that edits the arguments. */
function changeWay(interrupt, tools) {
    const call = callOf(interrupt);
    const before = call.arguments ?? {};
    const edited = (value) => (call.member === "input" ? { tool: call.name, input: value } : { arguments: value });
    return {
        id: "edit-accept",
        label: texts.editCall,
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
        isUnchanged: (value) => isSame(before, value),
    };
}

/**
 * Returns the schema of the arguments: one field each if they are flat, otherwise JSON. The page does not know the
 * schema of the tool.
 */
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
        label: texts.enterResult,
        look: "plain",
        key: "e",
        fields: form({}, { id: `${tools.id}-result`, change: tools.change, names: { "": texts.result } }),
        prefix: "resumeValue.editedArtifactData.result",
        build: (value) => ({ action: "edit-accept", editedArtifactData: { result: value } }),
    };
}

/** Creates the answers to a tool that needs input: continue with a result, or cancel the call. */
export function toolQuestionWays(interrupt, tools) {
    const { suspension, resumeMode } = interrupt.data;
    const schema = suspension?.response_schema ?? suspension?.responseSchema;
    const wantsAnswer =
        isObject(schema) || resumeMode === "use_decision_as_tool_result" || resumeMode === "pass_decision_to_tool";
    const options = { id: `${tools.id}-resume`, change: tools.change, names: { "": texts.value } };
    const resume = {
        id: "resume",
        label: texts.continueCall,
        look: "accept",
        key: "a",
        isOpen: wantsAnswer,
        fields: wantsAnswer ? form(isObject(schema) ? schema : {}, options) : undefined,
        prefix: "resumeValue.result",
        build: (value) => (wantsAnswer ? { action: "resume", result: value } : { action: "resume" }),
    };
    const reason = { reason: { title: texts.reason, description: texts.reasonHint, type: "string", format: "textarea" } };
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
