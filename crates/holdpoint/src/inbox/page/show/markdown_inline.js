//! Inline Markdown: emphasis, code, links. Takes linear time for any text: every search is bounded.

import { absoluteUrl } from "../allowed.js";
import { h } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { visible, visibleText } from "./characters.js";
import { portions } from "./text.js";

/** Longer texts are shown without formatting. */
const LENGTH_MAX = 20_000;
const PORTION = 6_000;
const NESTING_MAX = 16;
const BRACKETS_MAX = 64;
const OPENERS_TRIED_MAX = 64;
const ADDRESS_MAX = 2_000;
const ESCAPABLE = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const SPECIAL = /[\\`*_~[\]!<h\n]/g;

/**
 * @param {string} source
 * @returns {import("../dom.js").Description[]}
 */
export function inline(source) {
    if (source.length > LENGTH_MAX) {
        return portions(source, PORTION);
    }
    const state = { source, at: 0, out: [], brackets: [], missingTicks: new Set() };
    while (state.at < source.length) {
        step(state);
    }
    return descriptions(emphasised(state.out));
}

/**
 * Describes a link with its host, so that the link text cannot pretend to lead to another host. A link without an
 * allowed address is text.
 */
export function link(address, content, label) {
    const url = absoluteUrl(address);
    if (!url) {
        return h("span", { class: "link-refused" }, content, " (", visible(address), ")");
    }
    const host = url.protocol === "mailto:" ? url.pathname : url.host;
    const isPlain = label === url.href || `${label}/` === url.href;
    return h(
        "span",
        { class: "link" },
        h("a", { href: url.href }, content),
        !isPlain && h("span", { class: "link-host" }, ` (${visibleText(host)})`),
    );
}

// Pieces are texts, finished parts `{part, depth}`, or marks `{mark, count, opens, closes}` that may become emphasis.
function step(state) {
    const { source, at } = state;
    const character = source[at];
    if (character === "\\") {
        return escape(state);
    }
    if (character === "`") {
        return codeSpan(state);
    }
    if (character === "*" || character === "_" || character === "~") {
        return marks(state, character);
    }
    if (character === "[" || (character === "!" && source[at + 1] === "[")) {
        return openBracket(state, character === "!");
    }
    if (character === "]") {
        return closeBracket(state);
    }
    if (character === "<") {
        return angleLink(state);
    }
    if (character === "h") {
        return bareLink(state);
    }
    if (character === "\n") {
        return lineBreak(state);
    }
    return plain(state);
}

function plain(state) {
    SPECIAL.lastIndex = state.at + 1;
    const next = SPECIAL.exec(state.source)?.index ?? state.source.length;
    push(state, state.source.slice(state.at, next));
    state.at = next;
}

function push(state, piece) {
    const last = state.out.length - 1;
    if (typeof piece === "string" && typeof state.out[last] === "string" && state.brackets.at(-1)?.at !== last) {
        state.out[last] += piece;
    } else {
        state.out.push(piece);
    }
}

function escape(state) {
    const next = state.source[state.at + 1];
    if (next === "\n") {
        state.out.push({ part: h("br"), depth: 0 });
    } else {
        push(state, next !== undefined && ESCAPABLE.includes(next) ? next : "\\");
    }
    state.at += next === "\n" || (next !== undefined && ESCAPABLE.includes(next)) ? 2 : 1;
}

function lineBreak(state) {
    const last = state.out.length - 1;
    const isHard = typeof state.out[last] === "string" && state.out[last].endsWith("  ");
    if (isHard) {
        state.out.push({ part: h("br"), depth: 0 });
    } else {
        push(state, "\n");
    }
    state.at += 1;
}

function codeSpan(state) {
    const { source, at } = state;
    const length = runLength(source, at, "`");
    const from = at + length;
    const end = state.missingTicks.has(length) ? -1 : closingTicks(source, from, length);
    if (end < 0) {
        state.missingTicks.add(length);
        push(state, source.slice(at, from));
        state.at = from;
        return;
    }
    const content = source.slice(from, end).replaceAll("\n", " ");
    const isPadded = content.startsWith(" ") && content.endsWith(" ") && content.trim() !== "";
    state.out.push({ part: h("code", {}, visible(isPadded ? content.slice(1, -1) : content)), depth: 0 });
    state.at = end + length;
}

function closingTicks(source, from, length) {
    let at = source.indexOf("`", from);
    while (at >= 0) {
        const found = runLength(source, at, "`");
        if (found === length) {
            return at;
        }
        at = source.indexOf("`", at + found);
    }
    return -1;
}

function runLength(source, at, character) {
    let end = at;
    while (source[end] === character) {
        end += 1;
    }
    return end - at;
}

function marks(state, character) {
    const { source, at } = state;
    const count = runLength(source, at, character);
    const before = source[at - 1] ?? " ";
    const after = source[at + count] ?? " ";
    const opens = !/\s/.test(after) && (!isPunctuation(after) || /\s/.test(before) || isPunctuation(before));
    const closes = !/\s/.test(before) && (!isPunctuation(before) || /\s/.test(after) || isPunctuation(after));
    const isInWord = character === "_" && opens && closes && !isPunctuation(before) && !isPunctuation(after);
    const isTilde = character === "~" && count !== 2;
    if (isInWord || isTilde || (!opens && !closes)) {
        push(state, source.slice(at, at + count));
    } else {
        state.out.push({ mark: character, count, opens, closes });
    }
    state.at = at + count;
}

function isPunctuation(character) {
    return /[\p{P}\p{S}]/u.test(character);
}

function openBracket(state, isImage) {
    const text = isImage ? "![" : "[";
    if (state.brackets.length < BRACKETS_MAX) {
        state.brackets.push({ at: state.out.length, from: state.at + text.length, isImage });
        state.out.push(text);
    } else {
        push(state, text);
    }
    state.at += text.length;
}

function closeBracket(state) {
    const open = state.brackets.pop();
    const target = open && state.source[state.at + 1] === "(" ? destination(state.source, state.at + 2) : null;
    if (!target) {
        push(state, "]");
        state.at += 1;
        return;
    }
    const inner = state.out.splice(open.at).slice(1);
    const content = emphasised(inner);
    const label = state.source.slice(open.from, state.at);
    const depth = deepest(content) + 1;
    if (open.isImage) {
        const words = texts.imageNotLoaded(label.trim() === "" ? texts.imageWithoutText : label);
        state.out.push({ part: link(target.address, visible(words), words), depth: 0 });
    } else if (depth > NESTING_MAX) {
        state.out.push(label);
    } else {
        const shown = content.length === 0 ? visible(target.address) : descriptions(content, true);
        state.out.push({ part: link(target.address, shown, label), depth });
        // Links cannot be nested.
        state.brackets = state.brackets.filter((other) => other.isImage);
    }
    state.at = target.end;
}

/** Parses `address "title")` after the parenthesis. The title is not shown: it could be misleading. */
function destination(source, from) {
    const rest = source.slice(from, from + ADDRESS_MAX);
    const found = /^\s*(?:<([^<>\n]*)>|([^\s<>]*))/.exec(rest);
    const address = found[1] ?? balanced(found[2]);
    const end = found[0].length - (found[1] === undefined ? found[2].length - address.length : 0);
    const tail = /^(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)/.exec(rest.slice(end));
    return tail ? { address, end: from + end + tail[0].length } : null;
}

function balanced(address) {
    let open = 0;
    for (let index = 0; index < address.length; index += 1) {
        if (address[index] === "(") {
            open += 1;
        } else if (address[index] === ")") {
            open -= 1;
            if (open < 0) {
                return address.slice(0, index);
            }
        }
    }
    return address;
}

function angleLink(state) {
    const rest = state.source.slice(state.at, state.at + ADDRESS_MAX);
    const found = /^<((?:https?:\/\/|mailto:)[^\s<>]*)>/i.exec(rest);
    if (!found || !absoluteUrl(found[1])) {
        return plain(state);
    }
    state.out.push({ part: link(found[1], visible(found[1]), found[1]), depth: 0 });
    state.at += found[0].length;
}

function bareLink(state) {
    const { source, at } = state;
    const isInWord = /[\p{L}\p{N}_]/u.test(source[at - 1] ?? " ");
    const isInLink = state.brackets.some((open) => !open.isImage);
    const found = isInWord || isInLink ? null : /^https?:\/\/[^\s<>"`*|\\^{}]+/.exec(source.slice(at, at + ADDRESS_MAX));
    const address = found && balanced(found[0].replace(/[.,:;!?'\])_~]{1,20}$/, ""));
    if (!address || !absoluteUrl(address)) {
        return plain(state);
    }
    state.out.push({ part: link(address, visible(address), address), depth: 0 });
    state.at += address.length;
}

/**
 * Pairs the emphasis marks. The pieces between a pair are the end of the list, so that each piece moves once per
 * level.
 */
function emphasised(pieces) {
    const out = [];
    const openers = [];
    for (const piece of pieces) {
        if (piece.mark === undefined) {
            out.push(piece);
            continue;
        }
        const mark = { ...piece };
        while (mark.closes && mark.count > 0 && wrap(out, openers, mark)) {
            // Each iteration uses one or two characters of the mark.
        }
        if (mark.count > 0) {
            if (mark.opens) {
                openers.push(out.length);
            }
            out.push(mark);
        }
    }
    return out;
}

function wrap(out, openers, closer) {
    const tried = Math.max(0, openers.length - OPENERS_TRIED_MAX);
    for (let index = openers.length - 1; index >= tried; index -= 1) {
        const opener = out[openers[index]];
        if (opener.mark !== closer.mark) {
            continue;
        }
        const at = openers[index];
        const depth = deepest(out, at + 1) + 1;
        if (depth > NESTING_MAX) {
            return false;
        }
        const used = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
        const inner = out.splice(at + 1);
        const tag = closer.mark === "~" ? "del" : used === 2 ? "strong" : "em";
        const taken = closer.mark === "~" ? 2 : used;
        opener.count -= taken;
        closer.count -= taken;
        openers.length = opener.count > 0 ? index + 1 : index;
        if (opener.count <= 0) {
            out.pop();
        }
        out.push({ part: h(tag, {}, descriptions(inner)), depth });
        return true;
    }
    return false;
}

function deepest(pieces, from = 0) {
    let depth = 0;
    for (let index = from; index < pieces.length; index += 1) {
        depth = Math.max(depth, pieces[index].depth ?? 0);
    }
    return depth;
}

function descriptions(pieces) {
    return pieces.flatMap((piece) => {
        if (typeof piece === "string") {
            return visible(piece);
        }
        return piece.part ?? piece.mark.repeat(piece.count);
    });
}
