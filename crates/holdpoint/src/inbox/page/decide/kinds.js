//! Selects the content and the answers of an interrupt by its variant.

import { h } from "../dom.js";
import { artifact } from "../show/artifact.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { approvalContent, approvalWays } from "./approval.js";
import { clarificationContent, clarificationWays } from "./clarification.js";
import { conversationContent, conversationWays } from "./conversation.js";
import { customContent, customWays, multiContent, multiWays, troubleOf } from "./custom.js";
import { eventContent, eventWays } from "./external_event.js";
import { governedWays } from "./governed.js";
import { confidenceContent, confidenceWays } from "./low_confidence.js";
import { variantOf } from "./model.js";
import { toolContent, toolQuestionWays, toolWays } from "./tool_call.js";

const KINDS = {
    approval: { content: approvalContent, ways: approvalWays, heading: texts.decide },
    governed: { content: approvalContent, ways: governedWays, heading: texts.decide },
    tool: { content: (interrupt) => [troubleOf(interrupt.data), toolContent(interrupt)], ways: toolWays, heading: texts.decide },
    toolQuestion: { content: toolContent, ways: toolQuestionWays, heading: texts.answer },
    clarification: { content: clarificationContent, ways: clarificationWays, heading: texts.answer },
    custom: { content: customContent, ways: customWays, heading: texts.answer },
    multi: { content: multiContent, ways: multiWays, heading: texts.answer },
    event: { content: eventContent, ways: eventWays, heading: texts.answer },
    conversation: { content: conversationContent, ways: conversationWays, heading: texts.answer },
    confidence: { content: confidenceContent, ways: confidenceWays, heading: texts.decide },
    // A kind of a newer server: its data is shown, and it is answered with JSON.
    unknown: {
        content: ({ data }) => [h("section", { class: "shown" }, artifact(data))],
        ways: customWays,
        heading: texts.answer,
    },
};

/**
 * @param {import("./model.js").Interrupt} interrupt
 * @returns {{variant: string, heading: string, content: (facts: Object) => unknown, ways: (tools: Object) => import("./panel.js").Way[]}}
 */
export function kindFor(interrupt) {
    const variant = variantOf(interrupt);
    const { content, ways, heading } = KINDS[variant];
    return { variant, heading, content: (facts) => content(interrupt, facts), ways: (tools) => ways(interrupt, tools) };
}
