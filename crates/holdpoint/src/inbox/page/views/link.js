//! One pause over a signed link, without an account. Opening it decides nothing, and nothing is sent without a last look.

import { h } from "../dom.js";
import { kindFor } from "../decide/kinds.js";
import { fromLink, nameOf, ofTable } from "../decide/model.js";
import { didText, outcome } from "../decide/outcome.js";
import { pausePage } from "../decide/page.js";
import { afterChange, panel } from "../decide/panel.js";
import { deedText } from "../decide/people.js";
import { saidBy } from "../decide/refusals.js";
import { keyring, withDigest } from "../decide/sending.js";
import { shortText } from "../show/characters.js";
import { compareDigest } from "../show/digest.js";
import { absolute, countdown, duration, instant, time } from "../show/time.js";
import { link as texts } from "../texts/link.js";
import { pause as pauseTexts } from "../texts/pause.js";

const MESSAGE_CHARACTERS = 300;
const LAST_MS = 5 * 60_000;
const NO_BREAK = "\u00a0";
const TICK_MAX_MS = 30_000;

/** @param {{api: Object, params: {token: string}, redraw: () => void, now: () => number, announce: (text: string) => void, inbox?: string}} context */
export async function open(context) {
    const view = {
        context,
        keyFor: keyring(),
        pause: null,
        link: null,
        state: null,
        problem: null,
        panel: null,
        content: null,
        compared: undefined,
        done: null,
        notice: null,
        timer: null,
        isClosed: false,
    };
    await load(view);
    tick(view);
    return {
        describe: () => describe(view),
        keys: () => (view.pause && !view.done ? (view.panel?.keys() ?? []) : []),
        close() {
            view.isClosed = true;
            clearTimeout(view.timer);
        },
    };
}

/** Which page an error of the API stands for. */
export function stateOf({ status, code, details }) {
    const said = { answered: "answered", cancelled: "cancelled", expired: "expired" };
    const known = {
        interrupt_expired: "expired",
        interrupt_already_resolved: "answered",
        interrupt_cancelled: "cancelled",
        interrupt_gone: "cancelled",
        unauthenticated: "signIn",
        rate_limited: "busy",
    };
    return (
        ofTable(said, details?.state) ?? ofTable(known, code) ?? (status === 404 ? "unknown" : status === 410 ? "expired" : status === 401 ? "signIn" : "failed")
    );
}

async function load(view) {
    const { api, params, redraw } = view.context;
    try {
        /** @type {import("../../api-types.js").LinkedInterrupt} */
        const answer = await api.get(`/v1/interrupts/${params.token}`);
        Object.assign(view, { link: answer, pause: fromLink(answer), state: null, problem: null });
        prepare(view);
        compareDigest(view.pause.data, view.pause.digest).then((compared) => {
            view.compared = compared;
            redraw();
        });
    } catch (error) {
        if (typeof error?.status !== "number") {
            throw error;
        }
        Object.assign(view, { state: stateOf(error), problem: error, pause: null });
    }
}

function prepare(view) {
    const { pause, link, context } = view;
    const { redraw } = context;
    const tools = { id: "link", redraw, change: afterChange(redraw) };
    view.kind = kindFor(pause);
    view.content = view.kind.content({ pauses: [], now: context.now() });
    const ways = link.intent === "inspect" ? [] : view.kind.ways(tools);
    view.panel =
        ways.length === 0
            ? null
            : panel({
                  ways,
                  heading: view.kind.heading,
                  confirmsAll: true,
                  redraw,
                  send: (value) => send(view, value),
                  sent: (result, way) => sent(view, result, way),
                  over: (told) => over(view, told),
              });
}

function send(view, value) {
    const { api, params } = view.context;
    const body = withDigest(value, view.pause);
    return api.post(`/v1/interrupts/${params.token}`, body, { idempotencyKey: view.keyFor(body) });
}

async function sent(view, result, way) {
    const { announce, redraw } = view.context;
    announce(didText(way));
    if (result?.outcome === "asked") {
        view.notice = pauseTexts.outcomes.asked;
        await load(view);
    } else {
        view.done = { result, way };
    }
    redraw();
}

/** What the server says now is what the page says: somebody was faster, or the time is over. */
async function over(view, told) {
    view.notice = told.words;
    await load(view);
    view.context.announce(told.words);
    view.context.redraw();
}

function tick(view) {
    const ends = [view.pause?.expiresAt, view.link?.expiresAt].map((at) => countdown(at, view.context.now()).changesInMs ?? TICK_MAX_MS);
    view.timer = setTimeout(
        () => {
            if (!view.isClosed) {
                view.context.redraw();
                tick(view);
            }
        },
        Math.max(250, Math.min(...ends)),
    );
}

function describe(view) {
    if (!view.pause) {
        return standstill(view);
    }
    const { pause, link, context } = view;
    const now = context.now();
    const facts = { now, me: link.for, standing: "may", compared: view.compared };
    const done = view.done ? [outcome(view.done.result, { way: view.done.way }), h("p", {}, texts.doneText)] : null;
    const parts = {
        pause,
        kind: view.kind,
        content: view.content,
        decision: view.panel?.describe() ?? null,
        done,
        notice: notices(view),
        side: [linkFacts(link, now, view.done !== null)],
    };
    return pausePage(parts, facts);
}

function notices(view) {
    const { link, notice, done } = view;
    const words = link.intent === "inspect" ? texts.lookOnly : texts.decidesNothing;
    return [
        notice ? h("p", { class: "notice", role: "status", key: "notice" }, notice) : null,
        done ? null : h("p", { class: "notice", key: "link" }, words),
    ];
}

/** How long it works matters as long as it has something to do, and alarms only at the end. */
function linkFacts(link, now, isDone) {
    const left_ms = instant(link.expiresAt) - now;
    const attributes = { class: left_ms <= LAST_MS ? "deadline-soon" : undefined, datetime: link.expiresAt, title: absolute(link.expiresAt) };
    return h(
        "section",
        { class: "side-part" },
        h("p", {}, texts.asWho(nameOf(link.for))),
        isDone || !(left_ms > 0) ? null : h("p", {}, h("time", attributes, texts.worksFor(duration(left_ms).replaceAll(" ", NO_BREAK)))),
    );
}

/** What the question was, and who has decided it where the server says so. */
function about({ problem, context }) {
    const { title, answeredBy, answeredAt, action } = problem?.details ?? {};
    const when = answeredAt ? [" ", time(answeredAt, context.now())] : null;
    return [
        typeof title === "string" ? h("p", { class: "untrusted" }, shortText(title, MESSAGE_CHARACTERS)) : null,
        answeredBy ? h("p", {}, `${nameOf(answeredBy)} ${deedText(action ?? "answered")}`, when, ".") : null,
    ];
}

/** A link that leads to nothing one could decide, and why. */
function standstill(view) {
    const { title, text } = texts.states[view.state ?? "failed"];
    const retry = async () => {
        await load(view);
        view.context.redraw();
    };
    const mayRetry = view.state === "failed" || view.state === "busy";
    const detail =
        view.problem?.message && ["failed", "busy"].includes(view.state)
            ? saidBy(view.problem)
            : null;
    return h(
        "div",
        { class: `empty link-state link-${view.state}` },
        view.notice ? h("p", { class: "notice", role: "status" }, view.notice) : null,
        h("h1", {}, title),
        about(view),
        h("p", {}, text),
        detail ? h("p", { class: "muted" }, detail) : null,
        mayRetry ? h("p", {}, h("button", { type: "button", class: "button", on: { click: retry } }, texts.reload)) : null,
        view.state === "signIn" && view.context.inbox
            ? h("p", {}, h("a", { class: "button primary", href: view.context.inbox }, texts.toInbox))
            : null,
    );
}
