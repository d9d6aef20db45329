//! The view of an interrupt for a signed-in user: loads, refreshes and decides it, and shows the result.

import { h } from "../dom.js";
import { kindFor } from "../decide/kinds.js";
import { decisionOf, headline, isSame, nameOf, pick, siblings, eligibility, previousVersion } from "../decide/model.js";
import { history } from "../decide/history.js";
import { confirmationText, outcome } from "../decide/outcome.js";
import { interruptPage } from "../decide/page.js";
import { afterChange, panel } from "../decide/panel.js";
import { answerPanel } from "../decide/questions.js";
import { problemText } from "../decide/refusals.js";
import { createIdempotencyKeys, requestFor } from "../decide/requests.js";
import { nextOf, interruptsOf, runOf } from "../decide/store.js";
import { actionText, pastActionText } from "../decide/people.js";
import { compareDigest } from "../show/digest.js";
import { countdown } from "../show/time.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { show as showTexts } from "../texts/show.js";

const FRESH_MS = 8_000;
/** The wait before the refresh after a decision, which shows the new status of the run. */
const SOON_MS = 1_200;

export async function open(context) {
    const view = {
        context,
        keyFor: createIdempotencyKeys(),
        interrupts: [],
        run: null,
        interrupt: null,
        content: null,
        panel: null,
        askPanels: new Map(),
        done: null,
        isOwn: false,
        notice: null,
        problem: null,
        compared: undefined,
        timers: new Set(),
        isClosed: false,
    };
    await load(view);
    if (view.interrupt && context.params.do) {
        view.panel?.open(context.params.do);
    }
    tick(view);
    after(view, FRESH_MS, () => refresh(view));
    return {
        title: () => (view.interrupt ? headline(view.interrupt) : undefined),
        describe: () => describe(view),
        keys: () => keys(view),
        close() {
            view.isClosed = true;
            view.timers.forEach(clearTimeout);
        },
    };
}

function after(view, ms, act) {
    const timer = setTimeout(() => {
        view.timers.delete(timer);
        if (!view.isClosed) {
            act();
        }
    }, ms);
    view.timers.add(timer);
}

async function load(view) {
    const { api, params } = view.context;
    try {
        const [interrupts, run] = await Promise.all([interruptsOf(api, params.runId), runOf(api, params.runId)]);
        view.problem = null;
        store(view, interrupts, run);
    } catch (error) {
        if (typeof error?.status !== "number") {
            throw error;
        }
        view.problem = error;
    }
}

/** Stores the loaded data. Entered text stays while the interrupt is the same. */
function store(view, interrupts, run) {
    const { params } = view.context;
    const before = view.interrupt;
    const found = pick(interrupts, { nodeId: params.nodeId, interruptId: before?.interruptId ?? params.interrupt });
    const interrupt = following(found, interrupts) ?? found;
    Object.assign(view, { interrupts, run, interrupt: interrupt ?? null });
    if (!interrupt) {
        return;
    }
    const isSameInterrupt =
        before?.interruptId === interrupt.interruptId && before.status === interrupt.status && isSame(before.data, interrupt.data);
    if (!isSameInterrupt || eligibilityOf(view) !== view.eligibility) {
        prepare(view, before);
    } else if (!view.isOwn && (before.votes.length !== interrupt.votes.length || before.asks.length !== interrupt.asks.length)) {
        view.context.announce(texts.announceChanged);
    }
}

/** Returns the open interrupt of the next turn of a conversation. */
function following(interrupt, interrupts) {
    const id = interrupt?.data.conversationId;
    const isTurn = interrupt?.kind.startsWith("conversation.") && interrupt.status !== "open" && id !== undefined;
    return isTurn ? interrupts.find((other) => other.status === "open" && other.data.conversationId === id) : undefined;
}

function eligibilityOf(view) {
    return eligibility(view.interrupt, view.context.session, view.run);
}

function prepare(view, before) {
    const { interrupt, interrupts, context } = view;
    const kind = kindFor(interrupt);
    const earlier = previousVersion(interrupts, interrupt);
    const redraw = context.redraw;
    const tools = { id: `p-${interrupt.interruptId}`, redraw, change: afterChange(redraw) };
    view.kind = kind;
    view.eligibility = eligibilityOf(view);
    view.content = kind.content({ before: earlier, interrupts, now: context.now() });
    view.panel = interrupt.status === "open" ? decisionPanel(view, kind, waysFor(view, kind.ways(tools))) : null;
    view.compared = undefined;
    const isOver = before?.interruptId === interrupt.interruptId && before.status === "open" && interrupt.status !== "open";
    if (isOver && !view.done && !view.isOwn) {
        context.announce(texts.announceChanged);
    }
    compareDigest(interrupt.data, interrupt.digest).then((compared) => {
        view.compared = compared;
        redraw();
    });
}

/** Returns the answers that the caller may give. A caller that may not decide may still ask side questions. */
function waysFor(view, ways) {
    const mayDecide = view.eligibility === "may" || view.eligibility === "unnamed";
    return mayDecide ? ways : view.eligibility === "noScope" ? [] : ways.filter(({ id }) => id === "ask");
}

function decisionPanel(view, kind, ways) {
    if (ways.length === 0) {
        return null;
    }
    const { api, redraw, announce } = view.context;
    const send = (value) => {
        const { path, body } = requestFor(view.interrupt, value);
        return api.post(path, body, { idempotencyKey: view.keyFor({ path, body }) });
    };
    return panel({
        ways,
        heading: kind.heading,
        send,
        redraw,
        announce,
        sent: (result, way) => sent(view, result, way),
        over: (refusal) => over(view, refusal),
    });
}

async function sent(view, result, way) {
    const { api, announce, redraw } = view.context;
    const { interrupt } = view;
    const isAsk = result?.outcome === "asked";
    announce(isAsk ? texts.outcomes.asked : confirmationText(way));
    view.notice = isAsk ? texts.outcomes.asked : null;
    // The confirmation is announced, not the change that the own answer caused.
    view.isOwn = true;
    await load(view);
    view.isOwn = false;
    const goesOn = view.interrupt?.interruptId !== interrupt.interruptId;
    if (!isAsk && !goesOn) {
        view.done = { result, way, next: undefined };
        view.done.next = await nextOf(api, interrupt.interruptId).catch(() => undefined);
        after(view, SOON_MS, () => refresh(view, true));
    } else {
        prepare(view, interrupt);
    }
    redraw();
}

/** Loads the interrupt again after a refusal, and adds the principal of the decision to the message. */
async function over(view, refusal) {
    view.notice = refusal.words;
    await load(view);
    const decision = view.interrupt?.decision;
    const by = nameOf(decision?.value?.decidedBy ?? decision?.by);
    if (by && view.interrupt.status === "answered") {
        view.notice = `${refusal.words} ${by} ${pastActionText(decisionOf(view.interrupt).action)}.`;
    }
    view.context.announce(view.notice);
    view.context.redraw();
}

async function refresh(view, isOnce = false) {
    if (globalThis.document?.visibilityState !== "hidden") {
        await load(view);
        if (!view.isClosed) {
            view.context.redraw();
        }
    }
    if (!isOnce) {
        after(view, FRESH_MS, () => refresh(view));
    }
}

/** Redraws when the text of the countdown changes. */
function tick(view) {
    const { changesInMs } = countdown(view.interrupt?.status === "open" ? view.interrupt.expiresAt : undefined, view.context.now());
    after(view, Math.max(250, changesInMs ?? 30_000), () => {
        view.context.redraw();
        tick(view);
    });
}

function keys(view) {
    if (view.done?.next) {
        const { context } = view;
        return [
            {
                key: "j",
                text: texts.next,
                act: () => context.navigate(context.paths.interrupt(view.done.next.runId, view.done.next.nodeId)),
            },
        ];
    }
    return view.interrupt?.status === "open" ? (view.panel?.keys() ?? []) : [];
}

function describe(view) {
    const { context, interrupt, run } = view;
    if (view.problem && !interrupt) {
        return failed(view);
    }
    if (!interrupt) {
        return h(
            "div",
            { class: "empty" },
            h("h1", {}, texts.loadFailed),
            h("p", {}, texts.gone),
            h("p", {}, h("a", { class: "button", href: context.href(context.paths.list()) }, texts.toList)),
        );
    }
    const now = context.now();
    const facts = { now, eligibility: view.eligibility, me: context.session?.principal, compared: view.compared };
    const link = (other) => context.href(pathOf(view, other));
    const side = [runLink(view), history(view.interrupts, interrupt, { now, link })];
    const parts = {
        interrupt,
        run,
        kind: view.kind,
        content: view.content,
        decision: view.panel?.describe() ?? null,
        done: doneOf(view),
        hasNotice: view.notice !== null,
        notice: [noticeOf(view), others(view, link)],
        side,
        askPanel: (ask) => askPanel(view, ask),
    };
    return interruptPage(parts, facts);
}

function pathOf(view, { runId, nodeId, interruptId }) {
    return `${view.context.paths.interrupt(runId, nodeId)}?interrupt=${encodeURIComponent(interruptId)}`;
}

function runLink(view) {
    const { context, interrupt } = view;
    return h("p", { class: "side-part" }, h("a", { href: context.href(context.paths.run(interrupt.runId)) }, texts.toRun));
}

function noticeOf(view) {
    const { interrupt } = view;
    const words = { requester: texts.youMayNot, noScope: texts.noScope, voted: texts.youVoted(actionText(voteOf(view)?.action)) }[
        view.eligibility
    ];
    return [
        view.notice ? h("p", { class: "notice", role: "status", key: "notice" }, view.notice) : null,
        words && interrupt.status === "open" && !view.done ? h("p", { class: "notice", key: "eligibility" }, words) : null,
        view.compared === "different"
            ? h("p", { class: "notice notice-bad", role: "alert", key: "digest" }, showTexts.digestDifferent)
            : null,
        view.problem ? h("p", { class: "notice notice-warn", key: "problem" }, texts.loadFailed) : null,
    ];
}

function voteOf({ interrupt, context }) {
    return interrupt.votes.find((vote) => vote.decidedBy === context.session?.principal);
}

/** Describes the other open interrupts of the same step. */
function others(view, link) {
    const found = siblings(view.interrupts, view.interrupt);
    if (found.length === 0 || view.interrupt.status !== "open") {
        return null;
    }
    return h(
        "nav",
        { class: "notice", key: "others" },
        h("p", {}, texts.waitsAtSame(found.length)),
        h(
            "ul",
            {},
            found
                .slice(0, 20)
                .map((other) => h("li", { key: other.interruptId }, h("a", { href: link(other) }, headline(other)))),
        ),
    );
}

function doneOf(view) {
    if (!view.done) {
        return null;
    }
    const { context, interrupt, run } = view;
    const { next, result, way } = view.done;
    const link = (entry) => ({ href: context.href(pathOf(view, entry)), title: entry.data ? headline(entry) : entry.title });
    const here = view.interrupts.find((other) => other.status === "open" && other.interruptId !== interrupt.interruptId);
    const status = run?.status ?? result?.status;
    const isSettled = result?.outcome === "voted" && interrupt.status !== "open";
    return outcome(
        { ...result, status, errorCode: run ? run.error?.code ?? null : undefined, ...(isSettled ? { outcome: "settled" } : {}) },
        {
            way,
            here: here && link(here),
            next: next ? link(next) : next,
            list: context.href(context.paths.list()),
            runHref: context.href(context.paths.run(interrupt.runId)),
        },
    );
}

function askPanel(view, ask) {
    if (view.eligibility === "noScope") {
        return null;
    }
    if (!view.askPanels.has(ask.askId)) {
        const { api, redraw } = view.context;
        const done = async () => {
            await load(view);
            redraw();
        };
        view.askPanels.set(ask.askId, answerPanel(view.interrupt, ask, { api, keyFor: view.keyFor, redraw, done }));
    }
    return view.askPanels.get(ask.askId);
}

function failed(view) {
    const retry = async () => {
        await load(view);
        view.context.redraw();
    };
    const isGone = view.problem.status === 404;
    return h(
        "div",
        { class: "empty" },
        h("h1", {}, texts.loadFailed),
        h("p", {}, isGone ? texts.gone : problemText(view.problem)),
        h(
            "p",
            {},
            h("button", { type: "button", class: "button", on: { click: retry } }, texts.reload),
            " ",
            h("a", { class: "button", href: view.context.href(view.context.paths.list()) }, texts.toList),
        ),
    );
}
