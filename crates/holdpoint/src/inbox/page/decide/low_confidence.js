//! Low confidence: the confidence and the decision of the agent, to be ratified or overruled.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { changeReview, describedAs } from "./approval.js";
import { isObject, isSame } from "./model.js";

export function confidenceContent({ data }) {
    return [
        describedAs(data.description),
        h(
            "section",
            { class: "shown", "aria-labelledby": "shown-heading" },
            h("h2", { id: "shown-heading" }, texts.confidence),
            meter(data),
            data.decision === undefined
                ? null
                : [h("h2", {}, texts.decision), artifact(isReply(data.decision) ? replyOf(data.decision) : data.decision)],
        ),
    ];
}

/** Describes the observed confidence and the threshold, as a drawing and as text. */
function meter({ observed, threshold }) {
    const share = (value) => Math.min(1, Math.max(0, Number(value) || 0));
    const [has, needs] = [share(observed), share(threshold)];
    const WIDTH = 400;
    return h(
        "div",
        { class: "confidence" },
        h(
            "svg",
            { class: "confidence-bar", viewBox: `0 0 ${WIDTH} 28`, "aria-hidden": true, focusable: "false" },
            h("rect", { class: "confidence-track", x: 0, y: 6, width: WIDTH, height: 16, rx: 8 }),
            h("rect", { class: "confidence-value", x: 0, y: 6, width: Math.max(2, WIDTH * has), height: 16, rx: 8 }),
            h("line", { class: "confidence-needed", x1: WIDTH * needs, x2: WIDTH * needs, y1: 0, y2: 28 }),
        ),
        h("p", {}, texts.confidenceText(has, needs)),
    );
}

function isReply(decision) {
    return isObject(decision) && Array.isArray(decision.calls);
}

function replyOf({ text, calls }) {
    return typeof text === "string" && text !== "" ? { text, calls } : { calls };
}

export function confidenceWays(interrupt, tools) {
    const { decision } = interrupt.data;
    const ratify = {
        id: "ratify",
        label: texts.ratify,
        look: "accept",
        key: "a",
        build: () => (decision === undefined ? { action: "ratify" } : decision),
    };
    return [ratify, overruleWay(decision, tools)];
}

/** Creates the form that overrules: a text for the reply of an agent, otherwise another decision. */
function overruleWay(decision, tools) {
    const isText = decision === undefined || typeof decision === "string" || isReply(decision);
    const schema = isText
        ? { type: "string", format: "textarea", title: texts.newDecision, description: texts.newDecisionHint, minLength: 1 }
        : {};
    const value = isText ? undefined : decision;
    return {
        id: "overrule",
        label: texts.overrule,
        look: "reject",
        key: "r",
        fields: form(schema, {
            id: `${tools.id}-overrule`,
            value,
            change: tools.change,
            names: isText ? {} : { "": texts.newDecision },
        }),
        build: (other) => other,
        review: isText ? undefined : (other) => changeReview(decision, other),
        isUnchanged: (other) => !isText && isSame(decision, other),
    };
}
