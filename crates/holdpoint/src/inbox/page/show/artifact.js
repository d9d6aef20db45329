//! Describes the content to decide on: as text, Markdown, a table, a list of named members or a tree. The content is
//! untrusted: it is shown as text in its own box.

import { folded, h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText } from "./characters.js";
import { jsonTree } from "./json_tree.js";
import { markdown } from "./markdown.js";
import { patch } from "./patch.js";
import { cell, isScalar, scalar } from "./scalar.js";
import { columnsOf, table } from "./table.js";
import { text } from "./text.js";

const MEMBERS_AT_ONCE = 40;
const NAME_CHARACTERS = 120;
const LONG_TEXT = 160;
const JSON_CHARACTERS_MAX = 1_000_000;

/**
 * @param {unknown} value
 * @param {string} [type] the `artifactType`: Markdown types are rendered, a string of type `application/json` is parsed
 * @returns {import("../dom.js").Description}
 */
export function artifact(value, type = "") {
    return h("div", { class: "untrusted artifact" }, content(value, kindOf(type)));
}

/** @returns {"markdown" | "json" | "patch" | "code" | "any"} */
export function kindOf(type) {
    const name = String(type ?? "").toLowerCase().split(";")[0].trim();
    if (/(^|[^a-z])(markdown|md|mdx)$|(^|[./_-])x-markdown/.test(name)) {
        return "markdown";
    }
    if (/(^|[/+._-])json$/.test(name)) {
        return "json";
    }
    if (/(^|[/._-])(diff|patch)$/.test(name)) {
        return "patch";
    }
    return /(^|[/._-])(code|html|xml|sql|javascript|yaml|csv)$/.test(name) ? "code" : "any";
}

function content(value, kind) {
    if (value === undefined) {
        return h("p", { class: "nothing" }, texts.nothing);
    }
    if (typeof value === "string") {
        return textOf(value, kind);
    }
    if (isScalar(value)) {
        return h("p", {}, scalar(value));
    }
    return [structured(value, kind), asJson(value)];
}

function textOf(value, kind) {
    if (kind === "markdown") {
        return markdown(value);
    }
    if (kind === "patch" && value !== "") {
        return patch(value);
    }
    const parsed = kind === "json" ? parse(value) : undefined;
    if (parsed !== undefined && !isScalar(parsed)) {
        return [structured(parsed, "any"), folded(texts.markdownSource, () => [text(value, { isCode: true })], { class: "source" })];
    }
    return text(value, { isCode: kind === "code" });
}

function parse(value) {
    try {
        return value.length <= JSON_CHARACTERS_MAX ? JSON.parse(value) : undefined;
    } catch {
        return undefined;
    }
}

function structured(value, kind) {
    const columns = columnsOf(value);
    if (columns) {
        return table(value, { columns });
    }
    if (Array.isArray(value) || Object.keys(value).length === 0) {
        return jsonTree(value);
    }
    return h("dl", { class: "record" }, members(value, Object.keys(value), 0, kind));
}

/** Describes the members of an object as terms and definitions. */
function members(value, names, from, kind) {
    const end = Math.min(from + MEMBERS_AT_ONCE, names.length);
    const shown = names.slice(from, end).flatMap((name) => {
        const label = name === "" ? "\"\"" : shortText(name, NAME_CHARACTERS);
        return h("div", {}, h("dt", { dir: "auto" }, label), h("dd", {}, member(value[name], kind)));
    });
    if (end < names.length) {
        const left = names.length - end;
        const label = texts.showMoreEntries(Math.min(left, MEMBERS_AT_ONCE), left);
        const wrap = (button) => h("div", {}, h("dt", {}, "…"), h("dd", {}, button));
        shown.push(more(label, () => members(value, names, end, kind), `member ${end}`, wrap));
    }
    return shown;
}

function member(value, kind) {
    if (typeof value === "string") {
        const isLong = value.length > LONG_TEXT || value.includes("\n");
        const isMarkdown = kind === "markdown" && value !== "";
        return isLong || isMarkdown ? textOf(value, kind === "json" ? "any" : kind) : cell(value);
    }
    if (isScalar(value)) {
        return scalar(value);
    }
    const columns = columnsOf(value);
    return columns ? table(value, { columns }) : jsonTree(value, { openLevels: 2 });
}

function asJson(value) {
    return folded(texts.asJson, () => [jsonTree(value)], { class: "source" });
}
