//! What a decision did, and where to go from there.

import { h } from "../dom.js";
import { pause as texts } from "../texts/pause.js";
import { ofTable, titleText } from "./model.js";

/** What somebody did by a way, in a sentence. */
export function didText({ label }) {
    const known = Object.keys(texts.did).find((name) => texts[name] === label);
    return known ? texts.did[known] : texts.didOther(label);
}

/**
 * @param {{outcome?: string, status?: string, errorCode?: string | null}} result what the API said; `errorCode` is not there where
 *   the run cannot be read
 * @param {{way: import("./panel.js").Way, next?: {href: string, title: string} | null, here?: {href: string, title: string}, list?: string, runHref?: string}} facts
 */
export function outcome(result, { way, next, here, list, runHref }) {
    const words = [ofTable(texts.outcomes, result?.outcome), runWords(result ?? {}, way)].filter(Boolean).join(" ");
    // To say no is no success, and no failure either.
    const ways = further({ next, list, runHref });
    const isYes = way.look === "accept" || way.id === "edit-accept";
    return h(
        "section",
        { class: `notice ${isYes ? "notice-good" : ""} done`, key: "done", "aria-labelledby": "done-heading" },
        h("h2", { id: "done-heading", tabindex: -1, autofocus: true }, didText(way)),
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

/** A run that ends because somebody said no has not broken; where nobody can tell why it failed, neither is said. */
function runWords({ status, errorCode }, way) {
    if (status === "failed" && way.look === "reject" && (errorCode === undefined || errorCode === "approval_rejected")) {
        return errorCode && texts.runEnded;
    }
    const state = ofTable(texts.runStates, status);
    return state && texts.runNow(state);
}
