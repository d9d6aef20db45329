//! A governed approval: granted, rejected or overridden, by whoever holds what the gate wants.

import { form } from "../form/schema.js";
import { pause as texts } from "../texts/pause.js";
import { askWay, filled, textForm } from "./approval.js";
import { actionsOf, furtherMembers, isObject } from "./model.js";

const OWN_MEMBERS = ["decision", "reason", "action", "override"];

/** @param {import("./model.js").Pause} pause */
export function governedWays(pause, tools) {
    const offered = actionsOf(pause);
    const ways = [
        offered.includes("accept") && decisionWay(pause, tools, { id: "granted", label: texts.grant, look: "accept", key: "a" }),
        offered.includes("reject") &&
            decisionWay(pause, tools, { id: "rejected", label: texts.reject, look: "reject", key: "r" }),
        isObject(pause.data.override) && overrideWay(tools),
        offered.includes("ask") && askWay(pause, tools),
    ];
    return ways.filter(Boolean);
}

function decisionWay(pause, tools, { id, label, look, key }) {
    const extra = furtherMembers(pause.resumeSchema, OWN_MEMBERS) ?? { properties: {}, required: [] };
    const properties = {
        reason: { type: "string", format: "textarea", title: texts.reason, description: texts.whyHint },
        ...extra.properties,
    };
    const fields = form({ ...extra, type: "object", properties }, { id: `${tools.id}-${id}`, change: tools.change });
    return { id, label, look, key, fields, build: (value) => ({ ...filled(value), decision: id }) };
}

function overrideWay(tools) {
    const reason = { type: "string", format: "textarea", title: texts.reason, description: texts.reasonNeeded, minLength: 1 };
    const fields = textForm({ reason }, ["reason"], tools, "override");
    return {
        id: "override",
        label: texts.override,
        look: "reject",
        fields,
        build: (value) => ({ ...value, decision: "overridden" }),
    };
}
