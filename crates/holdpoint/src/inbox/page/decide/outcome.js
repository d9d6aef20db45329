//! The confirmation of an answer, with links to the next pages.

import { h } from "../dom.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { entryOf, titleText } from "./model.js";

/** Returns the confirmation sentence for an answer. */
export function confirmationText({ label }) {
    const known = Object.keys(texts.confirmations).find((name) => texts[name] === label);
    return known ? texts.confirmations[known] : texts.otherConfirmation(label);
}

/**
 * @param {{outcome?: string, status?: string, errorCode?: string | null}} result the response of the API; `errorCode` is undefined if
 *   the run cannot be read
 * @param {{way: import("./panel.js").Way, next?: {href: string, title: string} | null, here?: {href: string, title: string}, list?: string, runHref?: string}} facts
 */
export function outcome(result, { way, next, here, list, runHref }) {
    const words = [entryOf(texts.outcomes, result?.outcome), runWords(result ?? {}, way)].filter(Boolean).join(" ");
    // A rejection is shown neither as a success nor as a failure.
    const ways = further({ next, list, runHref });
    const isYes = way.look === "accept" || way.id === "edit-accept";
    return h(
        "section",
        { class: `notice ${isYes ? "notice-good" : ""} done`, key: "done", "aria-labelledby": "done-heading" },
        h("h2", { id: "done-heading", tabindex: -1, autofocus: true }, confirmationText(way)),
        words ? h("p", {}, words) : null,
        here ? h("p", {}, texts.nextHere, " ", h("a", { href: here.href }, titleText(here.title))) : null,
        ways.length > 0 ? h("p", { class: "actions" }, ways) : null,
    );
}

function further({ next, list, runHref }) {
    const ways = [
        next &&
            h(
                "a",
                { class: "button primary", href: next.href, "aria-keyshortcuts": "j" },
                texts.nextNamed(titleText(next.title)),
                h("kbd", { "aria-hidden": true }, "j"),
            ),
        next === null && h("span", { class: "nothing" }, texts.noNext),
        list && h("a", { class: "button", href: list }, texts.toList),
        runHref && h("a", { class: "button", href: runHref }, texts.toRun),
    ];
    return ways.filter(Boolean);
}

/**
 * Describes the status of the run. A run that failed because of this rejection has ended. If the error code is
 * unknown, the result is empty: the run may have failed for another reason.
 */
function runWords({ status, errorCode }, way) {
    if (status === "failed" && way.look === "reject" && (errorCode === undefined || errorCode === "approval_rejected")) {
        return errorCode && texts.runEnded;
    }
    const state = entryOf(texts.runStates, status);
    return state && texts.runNow(state);
}
