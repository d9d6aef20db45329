//! The messages for answers that the server refused. Uses the error of the API; creates no elements.

import { isServerMessage } from "../api.js";
import { serverErrors } from "../form/errors.js";
import { shortText } from "../show/characters.js";
import { interrupt as texts } from "../texts/interrupt.js";

const MESSAGE_CHARACTERS = 500;
const OVER = [
    "interrupt_already_resolved",
    "interrupt_cancelled",
    "interrupt_gone",
    "interrupt_expired",
    "interrupt_not_found",
    "payload_mismatch",
    "already_voted",
];

/**
 * @param {{status?: number, code?: string, message?: string, details?: Object}} error
 * @param {string} prefix the path of the form's value in the request
 * @returns {{words: string, detail?: string, errors?: Object<string, string>, isOver: boolean, mayRepeat: boolean}}
 *   `errors` are shown at their fields; `isOver`: the interrupt must be loaded again; `mayRepeat`: the request can be
 *   repeated
 */
export function refusal(error, prefix = "resumeValue") {
    const { status, code, message } = error;
    if (status === undefined || status === 0) {
        return { words: texts.unreachable, isOver: false, mayRepeat: true };
    }
    if (code === "validation_error") {
        return { words: detailOf(message), errors: serverErrors(error, prefix), isOver: false, mayRepeat: false };
    }
    const known = Object.hasOwn(texts.refusals, code) ? texts.refusals[code] : undefined;
    const isOver = OVER.includes(code) || status === 404 || status === 410;
    const mayRepeat = status === 429 || status >= 500;
    const words = known ?? (mayRepeat ? texts.broke : texts.loadFailed);
    return { words, detail: message ? problemText(error) : undefined, isOver, mayRepeat };
}

/** Returns the message of a problem, marked as a message of the server if it comes from there. */
export function problemText(problem) {
    const words = detailOf(problem.message);
    return isServerMessage(problem) ? texts.serverSays(words) : words;
}

function detailOf(message) {
    return shortText(String(message ?? ""), MESSAGE_CHARACTERS);
}
