//! Describes a patch in the unified format as text, with marked additions and removals.

import { h, more } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { visible } from "./characters.js";
import { portions } from "./text.js";

const LINES_AT_ONCE = 400;
const LINE_CHARACTERS = 1_000;

/** @param {string} value */
export function patch(value) {
    return h("pre", { class: "code patch", dir: "ltr" }, h("code", {}, lines(value.split("\n"), 0)));
}

function lines(all, from) {
    const end = Math.min(from + LINES_AT_ONCE, all.length);
    const shown = all.slice(from, end).map((line, index) => {
        const ending = from + index + 1 < all.length ? "\n" : "";
        const content = line.length > LINE_CHARACTERS ? portions(line, LINE_CHARACTERS) : visible(line);
        return h("span", { class: `patch-${kindOf(line)}` }, content, ending);
    });
    if (end < all.length) {
        shown.push(more(texts.diffMoreRows(all.length - end), () => lines(all, end), `line ${end}`));
    }
    return shown;
}

/** Returns the kind of a line. Checks file headers first: they start with `+` or `-`, too. */
function kindOf(line) {
    if (/^(diff |index |--- |\+\+\+ )/.test(line)) {
        return "head";
    }
    if (line.startsWith("@@")) {
        return "place";
    }
    return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same";
}
