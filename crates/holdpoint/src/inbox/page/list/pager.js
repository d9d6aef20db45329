//! The page buttons below a list.

import { h } from "../dom.js";

/**
 * @param {{texts: Object, page: number, hasNext: boolean, isTurning: boolean, next: () => void, previous: () => void, nextText?: string,
 *   place?: string}} facts `place` is the text for the current page, by default its number
 */
export function pager({ texts, page, hasNext, isTurning, next, previous, nextText = texts.next, place = texts.page(page), isAlways = false }) {
    if (page === 1 && !hasNext && !isAlways) {
        return null;
    }
    const turn = (key, text, click) => h("button", { key, type: "button", class: "button", "aria-disabled": isTurning || undefined, on: { click } }, text);
    return h("nav", { key: "pager", class: "pager", "aria-label": texts.pages },
        page > 1 && turn("previous", texts.previous, previous),
        h("span", { key: "page", class: "muted" }, isTurning ? texts.turning(place) : place),
        hasNext && turn("next", nextText, next));
}
