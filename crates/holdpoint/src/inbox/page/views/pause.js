//! One pause for somebody who is signed in: fetched, kept fresh, decided, and what came of it.

import { h } from "../dom.js";
import { kindFor } from "../decide/kinds.js";
import { decisionOf, headline, isSame, nameOf, pick, siblings, standing, versionBefore } from "../decide/model.js";
import { history } from "../decide/history.js";
import { didText, outcome } from "../decide/outcome.js";
import { pausePage } from "../decide/page.js";
import { afterChange, panel } from "../decide/panel.js";
import { answerPanel } from "../decide/questions.js";
import { saidBy } from "../decide/refusals.js";
import { keyring, requestFor } from "../decide/sending.js";
import { nextOf, pausesOf, runOf } from "../decide/store.js";
import { actionText, deedText } from "../decide/people.js";
import { compareDigest } from "../show/digest.js";
import { countdown } from "../show/time.js";
import { pause as texts } from "../texts/pause.js";
import { show as showTexts } from "../texts/show.js";

const FRESH_MS = 8_000;
/** A run that goes on is looked at sooner: somebody wants to see what the decision did. */
const SOON_MS = 1_200;

export async function open(context) {
    const view = {
        context,
        keyFor: keyring(),
        pauses: [],
        run: null,
        pause: null,
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
    if (view.pause && context.params.do) {
        view.panel?.open(context.params.do);
    }
    tick(view);
    after(view, FRESH_MS, () => refresh(view));
    return {
        title: () => (view.pause ? headline(view.pause) : undefined),
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
        const [pauses, run] = await Promise.all([pausesOf(api, params.runId), runOf(api, params.runId)]);
        view.problem = null;
        take(view, pauses, run);
    } catch (error) {
        if (typeof error?.status !== "number") {
            throw error;
        }
        view.problem = error;
    }
}

/** Takes in what was fetched. What somebody is writing stays as long as the question is the same. */
function take(view, pauses, run) {
    const { params } = view.context;
    const before = view.pause;
    const found = pick(pauses, { nodeId: params.nodeId, interruptId: before?.interruptId ?? params.interrupt });
    const pause = following(found, pauses) ?? found;
    Object.assign(view, { pauses, run, pause: pause ?? null });
    if (!pause) {
        return;
    }
    const isSamePause =
        before?.interruptId === pause.interruptId && before.status === pause.status && isSame(before.data, pause.data);
    if (!isSamePause || standingOf(view) !== view.standing) {
        prepare(view, before);
    } else if (!view.isOwn && (before.votes.length !== pause.votes.length || before.asks.length !== pause.asks.length)) {
        view.context.announce(texts.announceChanged);
    }
}

/** A conversation goes on with its next turn, under another question. */
function following(pause, pauses) {
    const id = pause?.data.conversationId;
    const isTurn = pause?.kind.startsWith("conversation.") && pause.status !== "open" && id !== undefined;
    return isTurn ? pauses.find((other) => other.status === "open" && other.data.conversationId === id) : undefined;
}

function standingOf(view) {
    return standing(view.pause, view.context.session, view.run);
}

function prepare(view, before) {
    const { pause, pauses, context } = view;
    const kind = kindFor(pause);
    const earlier = versionBefore(pauses, pause);
    const redraw = context.redraw;
    const tools = { id: `p-${pause.interruptId}`, redraw, change: afterChange(redraw) };
    view.kind = kind;
    view.standing = standingOf(view);
    view.content = kind.content({ before: earlier, pauses, now: context.now() });
    view.panel = pause.status === "open" ? decisionPanel(view, kind, waysFor(view, kind.ways(tools))) : null;
    view.compared = undefined;
    const isOver = before?.interruptId === pause.interruptId && before.status === "open" && pause.status !== "open";
    if (isOver && !view.done && !view.isOwn) {
        context.announce(texts.announceChanged);
    }
    compareDigest(pause.data, pause.digest).then((compared) => {
        view.compared = compared;
        redraw();
    });
}

/** Whoever may not decide may still ask. */
function waysFor(view, ways) {
    const mayDecide = view.standing === "may" || view.standing === "unnamed";
    return mayDecide ? ways : view.standing === "noScope" ? [] : ways.filter(({ id }) => id === "ask");
}

function decisionPanel(view, kind, ways) {
    if (ways.length === 0) {
        return null;
    }
    const { api, redraw, announce } = view.context;
    const send = (value) => {
        const { path, body } = requestFor(view.pause, value);
        return api.post(path, body, { idempotencyKey: view.keyFor({ path, body }) });
    };
    return panel({
        ways,
        heading: kind.heading,
        send,
        redraw,
        announce,
        sent: (result, way) => sent(view, result, way),
        over: (told) => over(view, told),
    });
}

async function sent(view, result, way) {
    const { api, announce, redraw } = view.context;
    const { pause } = view;
    const isAsk = result?.outcome === "asked";
    announce(isAsk ? texts.outcomes.asked : didText(way));
    view.notice = isAsk ? texts.outcomes.asked : null;
    // Whoever has just answered hears that, not that something has changed.
    view.isOwn = true;
    await load(view);
    view.isOwn = false;
    const goesOn = view.pause?.interruptId !== pause.interruptId;
    if (!isAsk && !goesOn) {
        view.done = { result, way, next: undefined };
        view.done.next = await nextOf(api, pause.interruptId).catch(() => undefined);
        after(view, SOON_MS, () => refresh(view, true));
    } else {
        prepare(view, pause);
    }
    redraw();
}

/** Somebody was faster, or it is over: tell by whom, if that is to be known. */
async function over(view, told) {
    view.notice = told.words;
    await load(view);
    const decision = view.pause?.decision;
    const by = nameOf(decision?.value?.decidedBy ?? decision?.by);
    if (by && view.pause.status === "answered") {
        view.notice = `${told.words} ${by} ${deedText(decisionOf(view.pause).action)}.`;
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

/** The countdown, as often as it reads otherwise. */
function tick(view) {
    const { changesInMs } = countdown(view.pause?.status === "open" ? view.pause.expiresAt : undefined, view.context.now());
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
                act: () => context.navigate(context.paths.pause(view.done.next.runId, view.done.next.nodeId)),
            },
        ];
    }
    return view.pause?.status === "open" ? (view.panel?.keys() ?? []) : [];
}

function describe(view) {
    const { context, pause, run } = view;
    if (view.problem && !pause) {
        return failed(view);
    }
    if (!pause) {
        return h(
            "div",
            { class: "empty" },
            h("h1", {}, texts.loadFailed),
            h("p", {}, texts.gone),
            h("p", {}, h("a", { class: "button", href: context.href(context.paths.list()) }, texts.toList)),
        );
    }
    const now = context.now();
    const facts = { now, standing: view.standing, me: context.session?.principal, compared: view.compared };
    const link = (other) => context.href(pathOf(view, other));
    const side = [runLink(view), history(view.pauses, pause, { now, link })];
    const parts = {
        pause,
        run,
        kind: view.kind,
        content: view.content,
        decision: view.panel?.describe() ?? null,
        done: doneOf(view),
        isTold: view.notice !== null,
        notice: [noticeOf(view), others(view, link)],
        side,
        askPanel: (ask) => askPanel(view, ask),
    };
    return pausePage(parts, facts);
}

function pathOf(view, { runId, nodeId, interruptId }) {
    return `${view.context.paths.pause(runId, nodeId)}?interrupt=${encodeURIComponent(interruptId)}`;
}

function runLink(view) {
    const { context, pause } = view;
    return h("p", { class: "side-part" }, h("a", { href: context.href(context.paths.run(pause.runId)) }, texts.toRun));
}

function noticeOf(view) {
    const { pause } = view;
    const words = { requester: texts.youMayNot, noScope: texts.noScope, voted: texts.youVoted(actionText(voteOf(view)?.action)) }[
        view.standing
    ];
    return [
        view.notice ? h("p", { class: "notice", role: "status", key: "notice" }, view.notice) : null,
        words && pause.status === "open" && !view.done ? h("p", { class: "notice", key: "standing" }, words) : null,
        view.compared === "different"
            ? h("p", { class: "notice notice-bad", role: "alert", key: "digest" }, showTexts.digestDifferent)
            : null,
        view.problem ? h("p", { class: "notice notice-warn", key: "problem" }, texts.loadFailed) : null,
    ];
}

function voteOf({ pause, context }) {
    return pause.votes.find((vote) => vote.decidedBy === context.session?.principal);
}

/** Other calls that wait at the same step. */
function others(view, link) {
    const found = siblings(view.pauses, view.pause);
    if (found.length === 0 || view.pause.status !== "open") {
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
    const { context, pause, run } = view;
    const { next, result, way } = view.done;
    const link = (entry) => ({ href: context.href(pathOf(view, entry)), title: entry.data ? headline(entry) : entry.title });
    const here = view.pauses.find((other) => other.status === "open" && other.interruptId !== pause.interruptId);
    const status = run?.status ?? result?.status;
    const isSettled = result?.outcome === "voted" && pause.status !== "open";
    return outcome(
        { ...result, status, errorCode: run ? run.error?.code ?? null : undefined, ...(isSettled ? { outcome: "settled" } : {}) },
        {
            way,
            here: here && link(here),
            next: next ? link(next) : next,
            list: context.href(context.paths.list()),
            runHref: context.href(context.paths.run(pause.runId)),
        },
    );
}

function askPanel(view, ask) {
    if (view.standing === "noScope") {
        return null;
    }
    if (!view.askPanels.has(ask.askId)) {
        const { api, redraw } = view.context;
        const done = async () => {
            await load(view);
            redraw();
        };
        view.askPanels.set(ask.askId, answerPanel(view.pause, ask, { api, keyFor: view.keyFor, redraw, done }));
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
        h("p", {}, isGone ? texts.gone : saidBy(view.problem)),
        h(
            "p",
            {},
            h("button", { type: "button", class: "button", on: { click: retry } }, texts.reload),
            " ",
            h("a", { class: "button", href: view.context.href(view.context.paths.list()) }, texts.toList),
        ),
    );
}
