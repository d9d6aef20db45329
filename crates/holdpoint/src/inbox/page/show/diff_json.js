//! Compares two JSON values: lists the changed, added and removed members and items with their paths.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText, visibleText } from "./characters.js";
import { compare } from "./compare.js";
import { diffText } from "./diff_text.js";
import { canonical } from "./digest.js";
import { jsonTree } from "./json_tree.js";
import { isScalar, scalar } from "./scalar.js";
import { wordDiff } from "./words.js";

const CHANGES_AT_ONCE = 100;
const CHANGES_MAX = 20_000;
/** Values below this level are compared as a whole, because each level compares all levels below it. */
const LEVELS_MAX = 30;
const LONG_TEXT = 200;
const NAME_CHARACTERS = 60;

/**
 * @typedef {{kind: "changed" | "added" | "removed", path: (string | number)[], before?: unknown, after?: unknown, note?: string}} Change
 * @returns {Change[]}
 */
export function changes(before, after) {
    const found = [];
    collect(before, after, [], found);
    return found;
}

/** @param {{layout?: "lines" | "sides"}} [options] for texts within the values */
export function diffJson(before, after, options = {}) {
    const found = changes(before, after);
    if (found.length === 0) {
        return h("p", { class: "diff-same" }, texts.diffSame);
    }
    const amount = (kind) => found.filter((change) => change.kind === kind).length;
    return h(
        "div",
        { class: "diff diff-json" },
        h("p", { class: "diff-summary" }, texts.diffChanges(amount("changed"), amount("added"), amount("removed"))),
        h("ul", { class: "diff-changes", "aria-label": texts.diffLabel }, portion(found, 0, options)),
    );
}

function collect(before, after, path, found) {
    if (found.length >= CHANGES_MAX || before === after) {
        return;
    }
    const isDeep = path.length >= LEVELS_MAX;
    if (isScalar(before) || isScalar(after) || Array.isArray(before) !== Array.isArray(after)) {
        found.push({ kind: "changed", path, before, after });
    } else if (isDeep) {
        if (canonical(before) !== canonical(after)) {
            found.push({ kind: "changed", path, before, after });
        }
    } else if (Array.isArray(before)) {
        collectItems(before, after, path, found);
    } else {
        collectMembers(before, after, path, found);
    }
}

function collectMembers(before, after, path, found) {
    for (const name of Object.keys(before)) {
        const here = [...path, name];
        if (Object.hasOwn(after, name)) {
            collect(before[name], after[name], here, found);
        } else {
            found.push({ kind: "removed", path: here, before: before[name] });
        }
    }
    for (const name of Object.keys(after)) {
        if (!Object.hasOwn(before, name)) {
            found.push({ kind: "added", path: [...path, name], after: after[name] });
        }
    }
}

function collectItems(before, after, path, found) {
    const stretches = compare(before.map(canonical), after.map(canonical));
    if (!stretches) {
        found.push({ kind: "changed", path, before, after, note: texts.diffTooLarge });
        return;
    }
    stretches.forEach((stretch, index) => {
        const following = stretches[index + 1];
        if (stretch.kind === "removed") {
            const added = following?.kind === "added" ? numbers(following.after, following.length) : [];
            collectReplaced(before, after, numbers(stretch.before, stretch.length), added, path, found);
        } else if (stretch.kind === "added" && stretches[index - 1]?.kind !== "removed") {
            collectReplaced(before, after, [], numbers(stretch.after, stretch.length), path, found);
        }
    });
}

/**
 * Pairs removed items with added items of the same shape: an object with the next object, a list with the next list.
 */
function collectReplaced(before, after, removed, added, path, found) {
    const waiting = new Map();
    for (const at of added) {
        const shape = shapeOf(after[at]);
        if (!waiting.has(shape)) {
            waiting.set(shape, []);
        }
        waiting.get(shape).push(at);
    }
    const taken = new Map([...waiting.keys()].map((shape) => [shape, 0]));
    for (const at of removed) {
        const shape = shapeOf(before[at]);
        const partner = waiting.get(shape)?.[taken.get(shape)];
        if (partner === undefined) {
            found.push({ kind: "removed", path: [...path, at], before: before[at] });
        } else {
            taken.set(shape, taken.get(shape) + 1);
            collect(before[at], after[partner], [...path, partner], found);
        }
    }
    for (const [shape, places] of waiting) {
        for (const at of places.slice(taken.get(shape))) {
            found.push({ kind: "added", path: [...path, at], after: after[at] });
        }
    }
}

function shapeOf(value) {
    return isScalar(value) ? "scalar" : Array.isArray(value) ? "list" : "object";
}

function numbers(from, length) {
    return Array.from({ length }, (_, index) => from + index);
}

function portion(found, from, options) {
    const end = Math.min(from + CHANGES_AT_ONCE, found.length);
    const shown = found.slice(from, end).map((change) => draw(change, options));
    if (end < found.length) {
        const left = found.length - end;
        const label = texts.showMoreEntries(Math.min(CHANGES_AT_ONCE, left), left);
        shown.push(more(label, () => portion(found, end, options), `change ${end}`, (button) => h("li", {}, button)));
    }
    return shown;
}

function draw(change, options) {
    return h(
        "li",
        { class: `diff-change diff-${change.kind}` },
        h("span", { class: "diff-kind" }, texts[change.kind]),
        " ",
        h("code", { class: "diff-path", dir: "ltr" }, place(change.path)),
        change.note && h("p", { class: "diff-note", role: "note" }, change.note),
        content(change, options),
    );
}

function content({ kind, before, after }, options) {
    if (kind !== "changed") {
        return kind === "added" ? h("ins", {}, whole(after)) : h("del", {}, whole(before));
    }
    if (typeof before === "string" && typeof after === "string") {
        if (isLong(before) || isLong(after)) {
            return diffText(before, after, options);
        }
        const words = wordDiff(before, after);
        if (words) {
            return values(words.before, words.after);
        }
    }
    return values(h("del", {}, whole(before)), h("ins", {}, whole(after)));
}

function values(before, after) {
    return h("div", { class: "diff-values" }, h("div", { class: "diff-removed" }, before), h("div", { class: "diff-added" }, after));
}

function isLong(text) {
    return text.length > LONG_TEXT || text.includes("\n");
}

function whole(value) {
    return isScalar(value) ? scalar(value) : jsonTree(value, { openLevels: 1 });
}

/** Returns a path such as `items[2].price`. Names that are not plain words are quoted. */
export function place(path) {
    if (path.length === 0) {
        return texts.whole;
    }
    const parts = path.map((part, index) => {
        if (typeof part === "number") {
            return `[${part}]`;
        }
        if (!/^[\p{L}_][\p{L}\p{N}_-]*$/u.test(part) || part.length > NAME_CHARACTERS) {
            return `[${visibleText(JSON.stringify(shortText(part, NAME_CHARACTERS)))}]`;
        }
        return index === 0 ? part : `.${part}`;
    });
    return parts.join("");
}
