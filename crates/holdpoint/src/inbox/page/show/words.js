//! Compares two lines word by word.

import { h } from "../dom.js";
import { compare } from "./compare.js";
import { visible } from "./characters.js";

const LINE_CHARACTERS_MAX = 2_000;
const CHANGES_MAX = 200;
/** Lines with a smaller common share are different lines, not a changed line. */
const COMMON_MIN = 0.35;
const WORDS = /[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu;

/**
 * Describes both lines with marked differences; null if they have too little in common or are too long.
 * @param {string} before
 * @param {string} after
 * @returns {{before: import("../dom.js").Description[], after: import("../dom.js").Description[]} | null}
 */
export function wordDiff(before, after) {
    if (Math.max(before.length, after.length) > LINE_CHARACTERS_MAX) {
        return null;
    }
    const old = before.match(WORDS) ?? [];
    const now = after.match(WORDS) ?? [];
    const stretches = compare(old, now, { changesMax: CHANGES_MAX });
    if (!stretches || common(stretches, old) < COMMON_MIN * Math.max(before.length, after.length)) {
        return null;
    }
    const shown = { before: [], after: [] };
    for (const { kind, before: from, after: to, length } of stretches) {
        const words = kind === "added" ? now.slice(to, to + length) : old.slice(from, from + length);
        const text = visible(words.join(""));
        if (kind !== "added") {
            shown.before.push(kind === "removed" ? h("del", {}, text) : text);
        }
        if (kind !== "removed") {
            shown.after.push(kind === "added" ? h("ins", {}, text) : text);
        }
    }
    return shown;
}

function common(stretches, old) {
    let characters = 0;
    for (const { kind, before, length } of stretches) {
        if (kind === "same") {
            characters += old.slice(before, before + length).join("").trim().length;
        }
    }
    return characters;
}
