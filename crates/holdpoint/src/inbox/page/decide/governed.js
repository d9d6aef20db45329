//! Governed approvals: accepted, rejected or overridden by principals with the role or scope that the gate requires.

import { form } from "../form/schema.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { askWay, filled, textForm } from "./approval.js";
import { actionsOf, furtherMembers, isObject } from "./model.js";

const OWN_MEMBERS = ["decision", "reason", "action", "override"];

/** @param {import("./model.js").Interrupt} interrupt */
export function governedWays(interrupt, tools) {
    const offered = actionsOf(interrupt);
    const ways = [
        offered.includes("accept") && decisionWay(interrupt, tools, { id: "granted", label: texts.accept, look: "accept", key: "a" }),
        offered.includes("reject") &&
            decisionWay(interrupt, tools, { id: "rejected", label: texts.reject, look: "reject", key: "r" }),
        isObject(interrupt.data.override) && overrideWay(tools),
        offered.includes("ask") && askWay(interrupt, tools),
    ];
    return ways.filter(Boolean);
}

function decisionWay(interrupt, tools, { id, label, look, key }) {
    const extra = furtherMembers(interrupt.resumeSchema, OWN_MEMBERS) ?? { properties: {}, required: [] };
    const properties = {
        reason: { type: "string", format: "textarea", title: texts.reason, description: texts.reasonHint },
        ...extra.properties,
    };
    const fields = form({ ...extra, type: "object", properties }, { id: `${tools.id}-${id}`, change: tools.change });
    return { id, label, look, key, fields, build: (value) => ({ ...filled(value), decision: id }) };
}

function overrideWay(tools) {
    const reason = { type: "string", format: "textarea", title: texts.reason, description: texts.overrideReasonHint, minLength: 1 };
    const fields = textForm({ reason }, ["reason"], tools, "override");
    return {
        id: "override",
        label: texts.override,
        look: "reject",
        fields,
        build: (value) => ({ ...value, decision: "overridden" }),
    };
}
