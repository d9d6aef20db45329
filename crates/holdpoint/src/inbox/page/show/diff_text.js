//! Compares two texts line by line: removed and added lines with a few unchanged lines around them.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { compare, replaced } from "./compare.js";
import { portions } from "./text.js";
import { wordDiff } from "./words.js";

const CONTEXT_LINES = 3;
const ROWS_AT_ONCE = 300;
const WORD_DIFFS_MAX = 300;
const LINE_CHARACTERS = 1_000;

/**
 * @param {string} before
 * @param {string} after
 * @param {{layout?: "lines" | "sides"}} [options] lines below each other, or side by side
 */
export function diffText(before, after, { layout = "lines" } = {}) {
    if (before === after) {
        return h("p", { class: "diff-same" }, texts.diffSame);
    }
    const old = before.split("\n");
    const now = after.split("\n");
    const found = compare(old, now);
    const stretches = found ?? replaced(old, now);
    const rows = layout === "sides" ? sideRows(stretches, old, now) : lineRows(stretches, old, now);
    const draw = layout === "sides" ? drawSides : drawLine;
    const head = layout === "sides" ? sidesHead() : linesHead();
    return h(
        "div",
        { class: `diff diff-${layout}` },
        h("p", { class: "diff-summary" }, texts.diffSummary(total(stretches, "added"), total(stretches, "removed"))),
        !found && h("p", { class: "diff-note", role: "note" }, texts.diffTooDifferent),
        h(
            "div",
            { class: "table-scroll", tabindex: 0, role: "group", "aria-label": texts.diffLabel },
            h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, portion(withFolds(rows), 0, draw))),
        ),
    );
}

function total(stretches, kind) {
    return stretches.filter((stretch) => stretch.kind === kind).reduce((sum, { length }) => sum + length, 0);
}

/** Returns rows for the layout `lines`: `{kind, before?, after?, text, words?}`. Line numbers start at 0. */
function lineRows(stretches, old, now) {
    const rows = [];
    forEachBlock(stretches, old, now, (block) => {
        if (block.kind === "same") {
            rows.push({ kind: "same", before: block.before, after: block.after, text: old[block.before] });
            return;
        }
        const { removed, added } = block;
        removed.forEach(({ line, words }) => rows.push({ kind: "removed", before: line, text: old[line], words }));
        added.forEach(({ line, words }) => rows.push({ kind: "added", after: line, text: now[line], words }));
    });
    return rows;
}

/** Returns rows for the layout `sides`: `{kind, left?, right?}`, each half `{line, text, words?}`. */
function sideRows(stretches, old, now) {
    const rows = [];
    forEachBlock(stretches, old, now, (block) => {
        if (block.kind === "same") {
            const text = old[block.before];
            rows.push({ kind: "same", left: { line: block.before, text }, right: { line: block.after, text } });
            return;
        }
        const { removed, added } = block;
        for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
            const left = removed[index] && { ...removed[index], text: old[removed[index].line] };
            const right = added[index] && { ...added[index], text: now[added[index].line] };
            rows.push({ kind: "changed", left, right });
        }
    });
    return rows;
}

/** Calls `call` with each unchanged line and with each change: its lines, and the word differences of paired lines. */
function forEachBlock(stretches, old, now, call) {
    let wordDiffs = 0;
    for (let index = 0; index < stretches.length; index += 1) {
        const { kind, before, after, length } = stretches[index];
        if (kind === "same") {
            for (let line = 0; line < length; line += 1) {
                call({ kind, before: before + line, after: after + line });
            }
            continue;
        }
        const following = stretches[index + 1];
        const removed = kind === "removed" ? lines(before, length) : [];
        const added = kind === "added" ? lines(after, length) : following?.kind === "added" ? lines(following.after, following.length) : [];
        if (kind === "removed" && following?.kind === "added") {
            index += 1;
        }
        for (let pair = 0; pair < Math.min(removed.length, added.length) && wordDiffs < WORD_DIFFS_MAX; pair += 1) {
            wordDiffs += 1;
            const words = wordDiff(old[removed[pair].line], now[added[pair].line]);
            removed[pair].words = words?.before;
            added[pair].words = words?.after;
        }
        call({ kind: "changed", removed, added });
    }
}

function lines(from, length) {
    return Array.from({ length }, (_, index) => ({ line: from + index }));
}

/** Replaces long sequences of unchanged lines with one entry `{fold: rows}`, except for a few lines at the ends. */
function withFolds(rows) {
    const items = [];
    let start = 0;
    while (start < rows.length) {
        let end = start;
        while (end < rows.length && rows[end].kind === "same") {
            end += 1;
        }
        if (end === start) {
            items.push(rows[start]);
            start += 1;
            continue;
        }
        const first = start === 0 ? start : Math.min(start + CONTEXT_LINES, end);
        const last = end === rows.length ? end : Math.max(end - CONTEXT_LINES, first);
        const fold = rows.slice(first, last);
        items.push(...rows.slice(start, first), ...(fold.length > 1 ? [{ fold }] : fold), ...rows.slice(last, end));
        start = end;
    }
    return items;
}

function portion(items, from, draw) {
    const end = Math.min(from + ROWS_AT_ONCE, items.length);
    const shown = items.slice(from, end).map((item, index) => {
        if (!item.fold) {
            return draw(item);
        }
        const label = texts.diffUnchanged(item.fold.length);
        return more(label, () => portion(item.fold, 0, draw), `fold ${from + index} ${item.fold.length}`, wholeRow);
    });
    if (end < items.length) {
        const label = texts.diffMoreRows(items.length - end);
        shown.push(more(label, () => portion(items, end, draw), `row ${end} of ${items.length}`, wholeRow));
    }
    return shown;
}

function wholeRow(button) {
    return h("tr", { class: "diff-fold" }, h("td", { colspan: 4 }, button));
}

function linesHead() {
    return [
        h("th", { scope: "col", class: "diff-number" }, hidden(texts.beforeLine)),
        h("th", { scope: "col", class: "diff-number" }, hidden(texts.afterLine)),
        h("th", { scope: "col", class: "diff-sign" }, hidden(texts.changed)),
        h("th", { scope: "col" }, hidden(texts.diffLabel)),
    ];
}

function sidesHead() {
    return [
        h("th", { scope: "col", class: "diff-number" }, hidden(texts.beforeLine)),
        h("th", { scope: "col" }, texts.before),
        h("th", { scope: "col", class: "diff-number" }, hidden(texts.afterLine)),
        h("th", { scope: "col" }, texts.after),
    ];
}

function drawLine({ kind, before, after, text, words }) {
    return h(
        "tr",
        { class: `diff-${kind}` },
        number(before),
        number(after),
        h("td", { class: "diff-sign" }, sign(kind)),
        h("td", { class: "diff-line", dir: "auto" }, content(text, words, kind)),
    );
}

function drawSides({ kind, left, right }) {
    const isSame = kind === "same";
    const half = (side, change) => {
        if (!side) {
            return [h("td", { class: "diff-number" }), h("td", { class: "diff-nothing" })];
        }
        const shown = content(side.text, side.words, isSame ? "same" : change);
        const name = isSame ? "diff-line" : `diff-line diff-${change}`;
        return [number(side.line), h("td", { class: name, dir: "auto" }, !isSame && sign(change), shown)];
    };
    return h("tr", { class: `diff-${kind}` }, half(left, "removed"), half(right, "added"));
}

function number(line) {
    return h("td", { class: "diff-number" }, line === undefined ? "" : String(line + 1));
}

function sign(kind) {
    const signs = { same: "", removed: "−", added: "+" };
    const words = { same: "", removed: texts.removed, added: texts.added };
    return kind === "same" ? [] : [h("span", { class: "sign", "aria-hidden": true }, signs[kind]), hidden(`${words[kind]}: `)];
}

function content(text, words, kind) {
    // A carriage return at the end of an unchanged line is not shown; it is shown if only one version has it.
    const shown = kind === "same" && text.endsWith("\r") ? text.slice(0, -1) : text;
    return words ?? portions(shown, LINE_CHARACTERS);
}

function hidden(text) {
    return h("span", { class: "visually-hidden" }, text);
}
