//! A pause as a page: what is asked, what to do about it, and what stands beside it. The same for those who are signed in
//! and for those who came by a link.

import { h } from "../dom.js";
import { deadline, time } from "../show/time.js";
import { digest } from "../show/digest.js";
import { pause as texts } from "../texts/pause.js";
import { deedText, people } from "./people.js";
import { decisionOf, headline, isHold, nameOf, ofTable } from "./model.js";
import { questions } from "./questions.js";

/**
 * @param {Object} view
 * @param {import("./model.js").Pause} view.pause
 * @param {ReturnType<import("./kinds.js").kindFor>} view.kind
 * @param {unknown} view.content described once: it may be large
 * @param {Object} facts `now`, `standing`, `me`, `compared`, and parts that only some pages have
 */
export function pausePage({ pause, kind, content, decision, done, notice, isTold = false, run, side, askPanel }, facts) {
    const { now } = facts;
    const isOpen = pause.status === "open";
    return h(
        "article",
        { class: `pause sort-${kind.sort}`, key: pause.interruptId },
        h(
            "header",
            { class: "pause-head" },
            h(
                "p",
                { class: "pause-kind" },
                h("span", { class: `chip chip-${kind.sort}` }, texts.kinds[kind.sort]),
                isOpen ? null : h("span", { class: "chip" }, ofTable(texts.states, pause.status) ?? ""),
            ),
            h("h1", { dir: "auto" }, headline(pause)),
            h(
                "dl",
                { class: "fact-line" },
                headFacts(pause, run, now).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
            ),
        ),
        h(
            "div",
            { class: "pause-columns" },
            h(
                "div",
                { class: "pause-main" },
                notice,
                h("div", { class: "pause-content", key: "content" }, content),
                done ?? (isOpen ? decision : isTold ? null : closed(pause, now)),
                questions(pause, { now, panelFor: askPanel }),
            ),
            h(
                "aside",
                { class: "pause-side" },
                people(pause, facts),
                pause.digest ? h("section", { class: "side-part" }, digest(pause.digest, facts.compared)) : null,
                side,
            ),
        ),
    );
}

function headFacts(pause, run, now) {
    const { data } = pause;
    const facts = [[texts.asked, time(pause.requestedAt, now)]];
    if (pause.expiresAt && pause.status === "open") {
        facts.push([texts.deadline, deadline(pause.expiresAt, now, { isNamed: true })]);
    }
    const isAsked = isHold(run?.workflowId);
    if (run?.workflowId && !isAsked) {
        facts.push([texts.workflow, nameOf(run.workflowId)]);
    }
    if (run?.owner?.principal) {
        facts.push([isAsked ? texts.askedBy : texts.startedBy, nameOf(run.owner.principal)]);
    }
    if (typeof data.graph === "string") {
        facts.push([texts.graph, nameOf(data.graph)]);
    }
    if (typeof data.agentId === "string") {
        facts.push([texts.agent, nameOf(data.agentId)]);
    }
    return facts;
}

/** A pause that is over: by whom, and how. */
export function closed(pause, now) {
    const found = decisionOf(pause);
    const by = found && found.by !== "" && !found.by.startsWith("system:");
    const words = by
        ? [`${found.by} ${deedText(found.action)}`, found.at ? [" ", time(found.at, now)] : null, "."]
        : (ofTable(texts.closed, pause.status) ?? texts.closed.answered);
    const at = !by && found?.at ? h("p", { class: "turn-by" }, time(found.at, now)) : null;
    return h("section", { class: "notice", key: "closed" }, h("p", {}, words), at);
}
