//! Describes a list of flat objects as a table.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText } from "./characters.js";
import { cell, isScalar } from "./scalar.js";

const COLUMNS_MAX = 20;
const FIRST_ROWS = 50;
const NEXT_ROWS = 200;
const TITLE_CHARACTERS = 80;

/**
 * Returns the columns of a list of flat objects, in the order of their first appearance; null for any other value.
 * @returns {string[] | null}
 */
export function columnsOf(value) {
    if (!Array.isArray(value) || value.length === 0) {
        return null;
    }
    const columns = new Set();
    for (const row of value) {
        if (isScalar(row) || Array.isArray(row)) {
            return null;
        }
        for (const name of Object.keys(row)) {
            columns.add(name);
            if (!isScalar(row[name]) || columns.size > COLUMNS_MAX) {
                return null;
            }
        }
    }
    return columns.size === 0 ? null : Array.from(columns);
}

/**
 * @param {Object[]} rows
 * @param {{columns?: string[], label?: string}} [options]
 */
export function table(rows, { columns = columnsOf(rows), label = texts.table } = {}) {
    const caption = texts.tableCaption(rows.length, columns.length);
    const titles = columns.map((name) => h("th", { scope: "col", dir: "auto" }, shortText(name, TITLE_CHARACTERS)));
    return h(
        "div",
        { class: "table-scroll", tabindex: 0, role: "group", "aria-label": label },
        h(
            "table",
            { class: "data" },
            h("caption", {}, caption),
            h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "row-number" }, texts.row), titles)),
            h("tbody", {}, body(rows, columns, 0, FIRST_ROWS)),
        ),
    );
}

function body(rows, columns, from, amount) {
    const end = Math.min(from + amount, rows.length);
    const shown = [];
    for (let index = from; index < end; index += 1) {
        const cells = columns.map((name) => column(rows[index], name));
        shown.push(h("tr", {}, h("th", { scope: "row", class: "row-number" }, String(index + 1)), cells));
    }
    if (end < rows.length) {
        const left = rows.length - end;
        const label = texts.showMoreEntries(Math.min(NEXT_ROWS, left), left);
        const wrap = (button) => h("tr", {}, h("td", { colspan: columns.length + 1 }, button));
        shown.push(more(label, () => body(rows, columns, end, NEXT_ROWS), `row ${end}`, wrap));
    }
    return shown;
}

function column(row, name) {
    if (!Object.hasOwn(row, name)) {
        return h("td", { class: "absent" }, h("span", { title: texts.absentLong }, texts.absent));
    }
    return h("td", { class: typeof row[name] === "number" ? "number" : undefined }, cell(row[name]));
}
