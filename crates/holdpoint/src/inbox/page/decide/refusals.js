//! What to tell somebody whose answer was not taken, and what to do next. From the error of the API, without elements.

import { isServersWord } from "../api.js";
import { serverErrors } from "../form/errors.js";
import { shortText } from "../show/characters.js";
import { pause as texts } from "../texts/pause.js";

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
 * @param {string} prefix what the form's value is called in the request
 * @returns {{words: string, detail?: string, errors?: Object<string, string>, isOver: boolean, mayRepeat: boolean}}
 *   `errors` belong beside fields; `isOver`: the state must be fetched again; `mayRepeat`: the same request once more is safe
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
    return { words, detail: message ? saidBy(error) : undefined, isOver, mayRepeat };
}

/** What a problem says, and that the server says it where that is so. */
export function saidBy(problem) {
    const words = detailOf(problem.message);
    return isServersWord(problem) ? texts.serverSays(words) : words;
}

function detailOf(message) {
    return shortText(String(message ?? ""), MESSAGE_CHARACTERS);
}
