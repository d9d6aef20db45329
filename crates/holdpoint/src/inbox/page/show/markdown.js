//! Converts Markdown to descriptions with a small set of tags. HTML is shown as text. Images are not loaded. Headings
//! start at the third level, below the headings of the page.

import { folded, h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText } from "./characters.js";
import { inline } from "./markdown_inline.js";
import { listItems, listMarker } from "./markdown_list.js";
import { isTableHead, tableRows } from "./markdown_table.js";
import { text } from "./text.js";

const BLOCKS_AT_ONCE = 200;
/** The maximum number of characters of a portion. A button shows the next portion. */
const CHARACTERS_AT_ONCE = 100_000;
/** The maximum number of blocks within the lists and quotes of one portion. */
const INNER_BLOCKS_MAX = 1_000;
/** The maximum nesting of quotes and lists. Deeper ones are shown as paragraphs. */
const NESTING_MAX = 10;

/**
 * @param {string} source
 * @returns {import("../dom.js").Description} the text with its folded source
 */
export function markdown(source) {
    const lines = source.replace(/\r\n?/g, "\n").split("\n");
    return h(
        "div",
        { class: "markdown" },
        portion(lines, 0),
        folded(texts.markdownSource, () => [text(source)], { class: "source" }),
    );
}

/** Describes the blocks from a line on, with a button for the next portion. */
function portion(lines, from) {
    const reader = { lines, at: from, level: 0, budget: { left: INNER_BLOCKS_MAX } };
    const found = [];
    let characters = 0;
    const isEnough = () => found.length >= BLOCKS_AT_ONCE || characters >= CHARACTERS_AT_ONCE || reader.budget.left <= 0;
    while (reader.at < lines.length && !isEnough()) {
        const start = reader.at;
        const block = next(reader);
        for (let line = start; line < reader.at; line += 1) {
            characters += lines[line].length;
        }
        if (block) {
            found.push(block);
        }
    }
    if (reader.at < lines.length) {
        const { at } = reader;
        found.push(more(texts.showMoreBlocks, () => portion(lines, at), `line ${at}`));
    }
    return found;
}

/** Describes the blocks within a quote or an item. Blocks over the budget are shown as text. */
function blocks(lines, level, budget) {
    const reader = { lines, at: 0, level, budget };
    const found = [];
    while (reader.at < lines.length) {
        budget.left -= 1;
        if (budget.left < 0) {
            found.push(text(lines.slice(reader.at).join("\n")));
            break;
        }
        found.push(next(reader));
    }
    return found.filter(Boolean);
}

/** Reads one block and advances the reader. Returns null for an empty line. */
function next(reader) {
    const line = reader.lines[reader.at];
    if (line.trim() === "") {
        reader.at += 1;
        return null;
    }
    return (
        fence(reader, line) ??
        heading(reader, line) ??
        rule(reader, line) ??
        quote(reader, line) ??
        list(reader, line) ??
        table(reader, line) ??
        indented(reader, line) ??
        paragraph(reader)
    );
}

function fence(reader, line) {
    const found = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/.exec(line);
    if (!found) {
        return undefined;
    }
    const [, ticks, info] = found;
    const content = [];
    reader.at += 1;
    while (reader.at < reader.lines.length) {
        const inside = reader.lines[reader.at];
        reader.at += 1;
        const closing = inside.trim();
        if (closing.length >= ticks.length && isOnly(closing, ticks[0])) {
            break;
        }
        content.push(inside);
    }
    const language = info.trim().split(/\s/)[0];
    const label = language ? texts.codeIn(shortText(language, 20)) : texts.code;
    return text(content.join("\n"), { isCode: true, label });
}

function heading(reader, line) {
    const found = /^ {0,3}(#{1,6})(?:\s+(.*))?$/.exec(line);
    if (!found) {
        return undefined;
    }
    reader.at += 1;
    const words = withoutClosingMarks(found[2] ?? "");
    return headingOf(found[1].length, words);
}

// Without a pattern: a regular expression would be slow with many marks that do not close the heading.
function withoutClosingMarks(words) {
    const trimmed = words.trimEnd();
    let end = trimmed.length;
    while (trimmed[end - 1] === "#") {
        end -= 1;
    }
    const closes = end === 0 || trimmed[end - 1] === " " || trimmed[end - 1] === "\t";
    return closes ? trimmed.slice(0, end).trimEnd() : trimmed;
}

function headingOf(level, words) {
    return h(`h${Math.min(level + 2, 6)}`, { dir: "auto" }, inline(words));
}

function rule(reader, line) {
    if (!isRule(line)) {
        return undefined;
    }
    reader.at += 1;
    return h("hr");
}

function quote(reader, line) {
    if (!/^ {0,3}>/.test(line) || reader.level >= NESTING_MAX) {
        return undefined;
    }
    const inside = [];
    while (reader.at < reader.lines.length) {
        const here = reader.lines[reader.at];
        const found = /^ {0,3}> ?(.*)$/.exec(here);
        const isLazy = !found && inside.length > 0 && inside.at(-1).trim() !== "" && !beginsBlock(here);
        if (!found && !isLazy) {
            break;
        }
        inside.push(found ? found[1] : here);
        reader.at += 1;
    }
    return h("blockquote", {}, blocks(inside, reader.level + 1, reader.budget));
}

function list(reader, line) {
    const marker = reader.level < NESTING_MAX && listMarker(line);
    if (!marker) {
        return undefined;
    }
    const { items, isLoose } = listItems(reader, marker);
    const entries = items.map((lines) => item(lines, reader, isLoose));
    if (!marker.isOrdered) {
        return h("ul", {}, entries);
    }
    // A list that does not start at one has its numbers as text: the attribute `start` is not allowed.
    const isCounted = marker.start !== 1;
    const numbered = entries.map((entry, index) => h("li", { dir: "auto" }, `${marker.start + index}. `, entry.children));
    return isCounted ? h("ul", { class: "numbered" }, numbered) : h("ol", {}, entries);
}

function item(lines, reader, isLoose) {
    const task = /^\[([ xX])\]\s/.exec(lines[0]);
    const content = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
    const inside = blocks(content, reader.level + 1, reader.budget);
    const mark = task && (task[1] === " " ? texts.taskOpen : texts.taskDone);
    // In a tight list the text of an item is not a paragraph.
    const [first, ...rest] = inside;
    const isBare = !isLoose && first?.tag === "p";
    return h("li", { dir: "auto" }, mark, isBare ? [first.children, rest] : inside);
}

function table(reader, line) {
    const columns = isTableHead(line, reader.lines[reader.at + 1]);
    if (!columns) {
        return undefined;
    }
    const rows = [];
    const head = reader.at;
    reader.at += 2;
    while (reader.at < reader.lines.length && reader.lines[reader.at].includes("|")) {
        rows.push(reader.lines[reader.at]);
        reader.at += 1;
    }
    return tableRows(reader.lines[head], rows, columns);
}

function indented(reader, line) {
    if (!/^( {4}|\t)/.test(line)) {
        return undefined;
    }
    const content = [];
    while (reader.at < reader.lines.length) {
        const here = reader.lines[reader.at];
        if (!/^( {4}|\t)/.test(here) && here.trim() !== "") {
            break;
        }
        content.push(here.replace(/^( {4}|\t)/, ""));
        reader.at += 1;
    }
    return text(content.join("\n").trimEnd(), { isCode: true, label: texts.code });
}

function paragraph(reader) {
    const words = [reader.lines[reader.at].trimStart()];
    reader.at += 1;
    while (reader.at < reader.lines.length) {
        const here = reader.lines[reader.at];
        const underline = here.trim();
        if (/^ {0,3}\S/.test(here) && underline !== "" && (isOnly(underline, "=") || isOnly(underline, "-"))) {
            reader.at += 1;
            return headingOf(underline[0] === "=" ? 1 : 2, words.join("\n").trim());
        }
        if (underline === "" || beginsBlock(here)) {
            break;
        }
        words.push(here.trimStart());
        reader.at += 1;
    }
    return h("p", { dir: "auto" }, inline(words.join("\n").trimEnd()));
}

/** Returns whether a line ends the paragraph before it. */
function beginsBlock(line) {
    if (/^ {0,3}(#{1,6}(\s|$)|>|`{3}|~{3})/.test(line)) {
        return true;
    }
    if (isRule(line)) {
        return true;
    }
    const marker = listMarker(line);
    return Boolean(marker) && (!marker.isOrdered || marker.start === 1) && !marker.isEmpty;
}

/** Returns whether a line is a rule: three or more of the same mark, with or without spaces between them. */
function isRule(line) {
    const mark = /^ {0,3}([-*_])/.exec(line)?.[1];
    if (!mark) {
        return false;
    }
    let found = 0;
    for (let at = 0; at < line.length; at += 1) {
        if (line[at] === mark) {
            found += 1;
        } else if (line[at] !== " " && line[at] !== "\t") {
            return false;
        }
    }
    return found >= 3;
}

function isOnly(text, character) {
    for (let at = 0; at < text.length; at += 1) {
        if (text[at] !== character) {
            return false;
        }
    }
    return true;
}
