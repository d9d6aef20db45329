//! What is shown of a pause, and which ways there are to answer it, by what people have to do with it.

import { h } from "../dom.js";
import { artifact } from "../show/artifact.js";
import { pause as texts } from "../texts/pause.js";
import { approvalContent, approvalWays } from "./approval.js";
import { clarificationContent, clarificationWays } from "./clarification.js";
import { conversationContent, conversationWays } from "./conversation.js";
import { customContent, customWays, multiContent, multiWays, troubleOf } from "./custom.js";
import { eventContent, eventWays } from "./external_event.js";
import { governedWays } from "./governed.js";
import { confidenceContent, confidenceWays } from "./low_confidence.js";
import { sortOf } from "./model.js";
import { toolContent, toolQuestionWays, toolWays } from "./tool_call.js";

const KINDS = {
    approval: { content: approvalContent, ways: approvalWays, heading: texts.decide },
    governed: { content: approvalContent, ways: governedWays, heading: texts.decide },
    tool: { content: (pause) => [troubleOf(pause.data), toolContent(pause)], ways: toolWays, heading: texts.decide },
    toolQuestion: { content: toolContent, ways: toolQuestionWays, heading: texts.answer },
    clarification: { content: clarificationContent, ways: clarificationWays, heading: texts.answer },
    custom: { content: customContent, ways: customWays, heading: texts.answer },
    multi: { content: multiContent, ways: multiWays, heading: texts.answer },
    event: { content: eventContent, ways: eventWays, heading: texts.answer },
    conversation: { content: conversationContent, ways: conversationWays, heading: texts.answer },
    confidence: { content: confidenceContent, ways: confidenceWays, heading: texts.decide },
    // A kind that a newer server has: shown as it is, and answered as JSON.
    unknown: {
        content: ({ data }) => [h("section", { class: "shown" }, artifact(data))],
        ways: customWays,
        heading: texts.answer,
    },
};

/**
 * @param {import("./model.js").Pause} pause
 * @returns {{sort: string, heading: string, content: (facts: Object) => unknown, ways: (tools: Object) => import("./panel.js").Way[]}}
 */
export function kindFor(pause) {
    const sort = sortOf(pause);
    const { content, ways, heading } = KINDS[sort];
    return { sort, heading, content: (facts) => content(pause, facts), ways: (tools) => ways(pause, tools) };
}
