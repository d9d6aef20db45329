//! Makes invisible characters visible. Some of them change the order of the displayed characters, others hide text:
//! with them, the displayed text could differ from the approved text.

import { h } from "../dom.js";
import { show as texts } from "../texts/show.js";

/** The number of marks that are elements. Further marks are plain text, to limit the number of elements. */
const MARKS_MAX = 1000;

// Control characters except tab and line feed; direction marks and overrides; zero-width characters; fillers;
// separators; tags and variation selectors, which can carry hidden text; unpaired surrogates.
const HIDDEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
        "\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb" +
        "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\p{Cs}\\u200c\\u200d]",
    "gu",
);

/**
 * Describes a text with marks in place of invisible characters.
 * @param {string} text
 * @returns {import("../dom.js").Description[]}
 */
export function visible(text) {
    const pieces = [];
    let from = 0;
    for (const { start, end, code, count } of runs(text)) {
        if (pieces.length > MARKS_MAX * 2) {
            pieces.push(visibleText(text.slice(from)));
            return pieces;
        }
        if (start > from) {
            pieces.push(text.slice(from, start));
        }
        pieces.push(h("span", { class: "hidden-character", title: texts.hiddenCharacter(name(code)) }, mark(code, count)));
        from = end;
    }
    if (from < text.length) {
        pieces.push(text.slice(from));
    }
    return pieces;
}

/** Returns the same as a string, for attributes, options and titles of drawings. */
export function visibleText(text) {
    let shown = "";
    let from = 0;
    for (const { start, end, code, count } of runs(text)) {
        shown += text.slice(from, start) + mark(code, count);
        from = end;
    }
    return shown + text.slice(from);
}

/** Returns a text on one line with at most `length` characters, for labels. */
export function shortText(text, length) {
    const head = text.slice(0, length * 4 + 16).replace(/\s+/g, " ").trim();
    const line = visibleText(head);
    const isWhole = text.length <= length * 4 + 16 && line.length <= length;
    return isWhole ? line : `${cut(line, length - 1)}…`;
}

/** Returns the start of a text without splitting a surrogate pair. */
export function cut(text, length) {
    const last = text.charCodeAt(length - 1);
    const splits = length < text.length && last >= 0xd800 && last <= 0xdbff;
    return text.slice(0, splits ? length - 1 : length);
}

/** Returns the end of an id, which distinguishes runs: run ids start with the time. */
export function endOfId(id, length = 8) {
    const text = String(id ?? "");
    return text.length <= length + 2 ? shortText(text, length + 2) : `…${shortText(text.slice(-length), length)}`;
}

/** Yields sequences of the same invisible character. */
function* runs(text) {
    let run = null;
    for (const found of text.matchAll(HIDDEN)) {
        const [character] = found;
        if (isHarmless(text, found.index, character)) {
            continue;
        }
        const code = character.codePointAt(0);
        const end = found.index + character.length;
        if (run && run.end === found.index && run.code === code) {
            run.end = end;
            run.count += 1;
            continue;
        }
        if (run) {
            yield run;
        }
        run = { start: found.index, end, code, count: 1 };
    }
    if (run) {
        yield run;
    }
}

/**
 * Returns whether an invisible character is harmless. A carriage return before a line feed is a line ending. Joiners
 * are part of some scripts and of emoji; between Latin letters they only hide text.
 */
function isHarmless(text, position, character) {
    if (character === "\r") {
        return text[position + 1] === "\n";
    }
    const joins = character === "\u200c" || character === "\u200d";
    return joins && position > 0 && text.charCodeAt(position - 1) > 0x24f && !isSpaceOrJoiner(text[position - 1]);
}

function isSpaceOrJoiner(character) {
    return /[\s\u2000-\u206f]/.test(character);
}

function mark(code, count) {
    return count === 1 ? `⟦${name(code)}⟧` : `⟦${name(code)} ×${count}⟧`;
}

function name(code) {
    return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}
