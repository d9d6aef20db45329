//! Questions with an answer each.

import { form } from "../form/schema.js";
import { pause as texts } from "../texts/pause.js";
import { describedAs } from "./approval.js";
import { isObject } from "./model.js";

export function clarificationContent({ data }) {
    return [describedAs(data.description ?? data.context)];
}

export function clarificationWays(pause, tools) {
    const fields = form(questionsSchema(pause.data.questions), { id: `${tools.id}-questions`, change: tools.change });
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

/** One object with a member for each question; all of them are wanted. A question without a schema is answered with a text. */
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
