//! External events: the expected event, how a system sends it, and a form to enter it manually.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { artifact } from "../show/artifact.js";
import { visible } from "../show/characters.js";
import { interrupt as texts } from "../texts/interrupt.js";
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

export function eventWays(interrupt, tools) {
    const schema = interrupt.resumeSchema?.properties?.eventPayload;
    const value = isObject(schema) ? undefined : (interrupt.data.correlation ?? {});
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
