//! Clarifications: questions with one answer each.

import { form } from "../form/schema.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { describedAs } from "./approval.js";
import { isObject } from "./model.js";

export function clarificationContent({ data }) {
    return [describedAs(data.description ?? data.context)];
}

export function clarificationWays(interrupt, tools) {
    const fields = form(questionsSchema(interrupt.data.questions), { id: `${tools.id}-questions`, change: tools.change });
    return [
        {
            id: "answers",
            label: texts.sendAnswers,
            look: "accept",
            isOpen: true,
            fields,
            prefix: "resumeValue.answers",
            build: (answers) => ({ answers }),
        },
    ];
}

/**
 * Returns the schema of an object with one required member per question. A question without a schema expects a
 * string.
 */
export function questionsSchema(questions) {
    const known = (Array.isArray(questions) ? questions : []).filter(
        (question) => isObject(question) && typeof question.id === "string",
    );
    const members = known.map(({ id, question, schema }) => [
        id,
        { ...(isObject(schema) ? schema : { type: "string" }), title: String(question ?? id) },
    ]);
    return { type: "object", properties: Object.fromEntries(members), required: members.map(([id]) => id) };
}
