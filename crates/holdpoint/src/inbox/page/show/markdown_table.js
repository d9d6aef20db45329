//! Describes Markdown tables, with the headers that screen readers need.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { inline } from "./markdown_inline.js";

const COLUMNS_MAX = 50;
const ROWS_AT_ONCE = 100;

/** Returns the number of columns of a table that starts with these two lines; 0 if they are not a table. */
export function isTableHead(line, below) {
    if (!line.includes("|") || below === undefined || !/^[\s|:-]+$/.test(below) || !below.includes("-")) {
        return 0;
    }
    const rules = cells(below);
    const isRule = rules.every((cell) => /^:?-+:?$/.test(cell));
    const columns = cells(line).length;
    return isRule && rules.length === columns && columns <= COLUMNS_MAX ? columns : 0;
}

export function tableRows(head, rows, columns) {
    const titles = cells(head).map((cell) => h("th", { scope: "col", dir: "auto" }, inline(cell)));
    return h(
        "div",
        { class: "table-scroll", tabindex: 0, role: "group", "aria-label": texts.table },
        h("table", {}, h("thead", {}, h("tr", {}, titles)), h("tbody", {}, body(rows, columns, 0))),
    );
}

function body(rows, columns, from) {
    const end = from + ROWS_AT_ONCE;
    const shown = rows.slice(from, end).map((row) => {
        const content = cells(row);
        return h("tr", {}, Array.from({ length: columns }, (_, index) => h("td", { dir: "auto" }, inline(content[index] ?? ""))));
    });
    if (rows.length > end) {
        const wrap = (button) => h("tr", {}, h("td", { colspan: columns }, button));
        const left = rows.length - end;
        const label = texts.showMoreEntries(Math.min(left, ROWS_AT_ONCE), left);
        shown.push(more(label, () => body(rows, columns, end), `row ${end}`, wrap));
    }
    return shown;
}

/** Returns the cells of a row. Bars separate them, except after a backslash. */
function cells(line) {
    const found = [];
    let cell = "";
    const bare = line.trim().replace(/^\|/, "");
    for (let at = 0; at < bare.length; at += 1) {
        if (bare[at] === "\\" && bare[at + 1] === "|") {
            cell += "|";
            at += 1;
        } else if (bare[at] === "|") {
            found.push(cell.trim());
            cell = "";
        } else {
            cell += bare[at];
        }
    }
    return cell.trim() === "" ? found : [...found, cell.trim()];
}
