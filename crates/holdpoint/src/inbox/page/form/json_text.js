//! Parses JSON that users enter. Reports the position of errors, and rejects duplicate members and numbers that
//! JavaScript would change silently.

import { form as texts } from "../texts/form.js";
import { shortText } from "../show/characters.js";

const LEVELS_MAX = 500;
const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;

/**
 * @param {string} text
 * @returns {{value: unknown} | {error: {message: string, line: number, column: number}}} line and column start at 1
 */
export function parseJson(text) {
    const reader = { text, at: 0 };
    try {
        scanValue(reader, 0);
        skipSpace(reader);
        if (reader.at < text.length) {
            stop(reader, texts.syntaxMore);
        }
        return { value: JSON.parse(text) };
    } catch (error) {
        if (!(error instanceof JsonSyntaxError)) {
            throw error;
        }
        return { error: { message: error.message, ...position(text, error.at) } };
    }
}

/** Returns the error with its position. */
export function syntaxMessage({ message, line, column }) {
    return texts.syntax(message, line, column);
}

class JsonSyntaxError extends Error {
    constructor(message, at) {
        super(message);
        this.at = at;
    }
}

function stop(reader, message, at = reader.at) {
    throw new JsonSyntaxError(at >= reader.text.length ? texts.syntaxEnd : message, at);
}

function position(text, at) {
    const before = text.slice(0, at);
    const line = before.split("\n").length;
    return { line, column: Array.from(before.slice(before.lastIndexOf("\n") + 1)).length + 1 };
}

function skipSpace(reader) {
    while (" \t\r\n".includes(reader.text[reader.at] ?? "x")) {
        reader.at += 1;
    }
}

function scanValue(reader, level) {
    skipSpace(reader);
    if (level > LEVELS_MAX) {
        stop(reader, texts.syntaxDeep);
    }
    const first = reader.text[reader.at];
    if (first === "{") {
        scanObject(reader, level);
    } else if (first === "[") {
        scanList(reader, level);
    } else if (first === "\"") {
        scanString(reader);
    } else if (first === "-" || (first >= "0" && first <= "9")) {
        scanNumber(reader);
    } else if (take(reader, WORD) === null) {
        stop(reader, texts.syntaxValue);
    }
}

function scanObject(reader, level) {
    const names = new Set();
    reader.at += 1;
    skipSpace(reader);
    if (reader.text[reader.at] === "}") {
        reader.at += 1;
        return;
    }
    for (;;) {
        skipSpace(reader);
        const start = reader.at;
        if (reader.text[start] !== "\"") {
            stop(reader, texts.syntaxName);
        }
        const name = JSON.parse(scanString(reader));
        if (names.has(name)) {
            stop(reader, texts.syntaxTwice(shortText(name, 60)), start);
        }
        names.add(name);
        skipSpace(reader);
        if (reader.text[reader.at] !== ":") {
            stop(reader, texts.syntaxColon);
        }
        reader.at += 1;
        scanValue(reader, level + 1);
        if (isClosed(reader, "}")) {
            return;
        }
    }
}

function scanList(reader, level) {
    reader.at += 1;
    skipSpace(reader);
    if (reader.text[reader.at] === "]") {
        reader.at += 1;
        return;
    }
    for (;;) {
        scanValue(reader, level + 1);
        if (isClosed(reader, "]")) {
            return;
        }
    }
}

function isClosed(reader, bracket) {
    skipSpace(reader);
    const next = reader.text[reader.at];
    if (next !== bracket && next !== ",") {
        stop(reader, texts.syntaxComma);
    }
    reader.at += 1;
    return next === bracket;
}

function scanString(reader) {
    const found = take(reader, STRING);
    if (found === null) {
        throw new JsonSyntaxError(texts.syntaxString, reader.at);
    }
    return found;
}

function scanNumber(reader) {
    const start = reader.at;
    const found = take(reader, NUMBER);
    const next = reader.text[reader.at] ?? "";
    if (found === null || /[\w.+-]/.test(next)) {
        throw new JsonSyntaxError(texts.syntaxNumber, start);
    }
    const value = Number(found);
    const isInteger = /^-?\d+$/.test(found);
    if (!Number.isFinite(value) || (isInteger && !Number.isSafeInteger(value))) {
        throw new JsonSyntaxError(texts.syntaxRounded, start);
    }
}

function take(reader, pattern) {
    pattern.lastIndex = reader.at;
    const found = pattern.exec(reader.text)?.[0] ?? null;
    reader.at += found?.length ?? 0;
    return found;
}
