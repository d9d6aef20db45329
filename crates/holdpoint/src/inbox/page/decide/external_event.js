//! Waiting for something outside: what is waited for, how a system tells it, and a form for when it does not.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { visible } from "../show/characters.js";
import { pause as texts } from "../texts/pause.js";
import { describedAs } from "./approval.js";
import { isObject, nameOf } from "./model.js";

export function eventContent({ data, status = "open" }) {
    const hasCorrelation = isObject(data.correlation) && Object.keys(data.correlation).length > 0;
    const example = { eventType: data.eventType, eventId: "…", correlation: data.correlation ?? {}, payload: {} };
    return [
        describedAs(data.description),
        h(
            "section",
            { class: "shown", "aria-labelledby": "shown-heading" },
            h("h2", { id: "shown-heading" }, `${texts.waitsFor} `, h("code", {}, nameOf(data.eventType))),
            hasCorrelation ? [h("p", {}, texts.correlation), artifact(data.correlation)] : h("p", {}, texts.noCorrelation),
            status === "open"
                ? [
                      h("p", {}, texts.eventHow),
                      h("pre", { class: "untrusted how", tabindex: 0 }, visible(`POST /v1/events\n${JSON.stringify(example, null, 2)}`)),
                      h("p", {}, texts.eventByHand),
                  ]
                : null,
        ),
    ];
}

export function eventWays(pause, tools) {
    const schema = pause.resumeSchema?.properties?.eventPayload;
    const value = isObject(schema) ? undefined : (pause.data.correlation ?? {});
    const fields = form(isObject(schema) ? schema : {}, {
        id: `${tools.id}-event`,
        value,
        change: tools.change,
        names: { "": texts.payload },
    });
    return [
        {
            id: "event",
            label: texts.sendEvent,
            look: "plain",
            fields,
            prefix: "resumeValue.eventPayload",
            build: (payload) => ({ eventPayload: payload }),
            submit: texts.sendEvent,
        },
    ];
}
