//! The page of an interrupt: its content, the decision and the side column. The inbox and the page of a signed link use
//! it.

import { h } from "../dom.js";
import { deadline, time } from "../show/time.js";
import { digest } from "../show/digest.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { pastActionText, people } from "./people.js";
import { decisionOf, headline, isHold, nameOf, entryOf } from "./model.js";
import { questions } from "./questions.js";

/**
 * @param {Object} view
 * @param {import("./model.js").Interrupt} view.interrupt
 * @param {ReturnType<import("./kinds.js").kindFor>} view.kind
 * @param {unknown} view.content described only once, because it may be large
 * @param {Object} facts `now`, `eligibility`, `me`, `compared`, and parts that only some pages have
 */
export function interruptPage({ interrupt, kind, content, decision, done, notice, hasNotice = false, run, side, askPanel }, facts) {
    const { now } = facts;
    const isOpen = interrupt.status === "open";
    return h(
        "article",
        { class: `interrupt variant-${kind.variant}`, key: interrupt.interruptId },
        h(
            "header",
            { class: "interrupt-head" },
            h(
                "p",
                { class: "interrupt-kind" },
                h("span", { class: `chip chip-${kind.variant}` }, texts.kinds[kind.variant]),
                isOpen ? null : h("span", { class: "chip" }, entryOf(texts.states, interrupt.status) ?? ""),
            ),
            h("h1", { dir: "auto" }, headline(interrupt)),
            h(
                "dl",
                { class: "fact-line" },
                headFacts(interrupt, run, now).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
            ),
        ),
        h(
            "div",
            { class: "interrupt-columns" },
            h(
                "div",
                { class: "interrupt-main" },
                notice,
                h("div", { class: "interrupt-content", key: "content" }, content),
                done ?? (isOpen ? decision : hasNotice ? null : closed(interrupt, now)),
                questions(interrupt, { now, panelFor: askPanel }),
            ),
            h(
                "aside",
                { class: "interrupt-side" },
                people(interrupt, facts),
                interrupt.digest ? h("section", { class: "side-part" }, digest(interrupt.digest, facts.compared)) : null,
                side,
            ),
        ),
    );
}

function headFacts(interrupt, run, now) {
    const { data } = interrupt;
    const facts = [[texts.asked, time(interrupt.requestedAt, now)]];
    if (interrupt.expiresAt && interrupt.status === "open") {
        facts.push([texts.deadline, deadline(interrupt.expiresAt, now, { isNamed: true })]);
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

/** Describes a closed interrupt: the principal and the action, or the state. */
export function closed(interrupt, now) {
    const found = decisionOf(interrupt);
    const by = found && found.by !== "" && !found.by.startsWith("system:");
    const words = by
        ? [`${found.by} ${pastActionText(found.action)}`, found.at ? [" ", time(found.at, now)] : null, "."]
        : (entryOf(texts.closed, interrupt.status) ?? texts.closed.answered);
    const at = !by && found?.at ? h("p", { class: "turn-by" }, time(found.at, now)) : null;
    return h("section", { class: "notice", key: "closed" }, h("p", {}, words), at);
}
