//! The view of an interrupt over a signed link, without an account. An answer is sent only
//! after a confirmation or a form.

import { h } from "../dom.js";
import { kindFor } from "../decide/kinds.js";
import { fromLink, nameOf, entryOf } from "../decide/model.js";
import { confirmationText, outcome } from "../decide/outcome.js";
import { interruptPage } from "../decide/page.js";
import { afterChange, panel } from "../decide/panel.js";
import { pastActionText } from "../decide/people.js";
import { problemText } from "../decide/refusals.js";
import { createIdempotencyKeys, withDigest } from "../decide/requests.js";
import { shortText } from "../show/characters.js";
import { compareDigest } from "../show/digest.js";
import { absolute, countdown, duration, instant, time } from "../show/time.js";
import { link as texts } from "../texts/link.js";
import { interrupt as interruptTexts } from "../texts/interrupt.js";

const MESSAGE_CHARACTERS = 300;
const LAST_MS = 5 * 60_000;
const NO_BREAK = "\u00a0";
const TICK_MAX_MS = 30_000;

/** @param {{api: Object, params: {token: string}, redraw: () => void, now: () => number, announce: (text: string) => void, inbox?: string}} context */
export async function open(context) {
    const view = {
        context,
        keyFor: createIdempotencyKeys(),
        interrupt: null,
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
        keys: () => (view.interrupt && !view.done ? (view.panel?.keys() ?? []) : []),
        close() {
            view.isClosed = true;
            clearTimeout(view.timer);
        },
    };
}

/** Returns the state of the link for an error of the API. */
export function stateOf({ status, code, details }) {
    const reported = { answered: "answered", cancelled: "cancelled", expired: "expired" };
    const known = {
        interrupt_expired: "expired",
        interrupt_already_resolved: "answered",
        interrupt_cancelled: "cancelled",
        interrupt_gone: "cancelled",
        unauthenticated: "signIn",
        rate_limited: "busy",
    };
    return (
        entryOf(reported, details?.state) ?? entryOf(known, code) ?? (status === 404 ? "unknown" : status === 410 ? "expired" : status === 401 ? "signIn" : "failed")
    );
}

async function load(view) {
    const { api, params, redraw } = view.context;
    try {
        /** @type {import("../../api-types.js").LinkedInterrupt} */
        const answer = await api.get(`/v1/interrupts/${params.token}`);
        Object.assign(view, { link: answer, interrupt: fromLink(answer), state: null, problem: null });
        prepare(view);
        compareDigest(view.interrupt.data, view.interrupt.digest).then((compared) => {
            view.compared = compared;
            redraw();
        });
    } catch (error) {
        if (typeof error?.status !== "number") {
            throw error;
        }
        Object.assign(view, { state: stateOf(error), problem: error, interrupt: null });
    }
}

function prepare(view) {
    const { interrupt, link, context } = view;
    const { redraw } = context;
    const tools = { id: "link", redraw, change: afterChange(redraw) };
    view.kind = kindFor(interrupt);
    view.content = view.kind.content({ interrupts: [], now: context.now() });
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
                  over: (refusal) => over(view, refusal),
              });
}

function send(view, value) {
    const { api, params } = view.context;
    const body = withDigest(value, view.interrupt);
    return api.post(`/v1/interrupts/${params.token}`, body, { idempotencyKey: view.keyFor(body) });
}

async function sent(view, result, way) {
    const { announce, redraw } = view.context;
    announce(confirmationText(way));
    if (result?.outcome === "asked") {
        view.notice = interruptTexts.outcomes.asked;
        await load(view);
    } else {
        view.done = { result, way };
    }
    redraw();
}

/** Loads the interrupt again after a refusal: it was answered by another principal, or has expired. */
async function over(view, refusal) {
    view.notice = refusal.words;
    await load(view);
    view.context.announce(refusal.words);
    view.context.redraw();
}

function tick(view) {
    const ends = [view.interrupt?.expiresAt, view.link?.expiresAt].map((at) => countdown(at, view.context.now()).changesInMs ?? TICK_MAX_MS);
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
    if (!view.interrupt) {
        return unavailable(view);
    }
    const { interrupt, link, context } = view;
    const now = context.now();
    const facts = { now, me: link.for, eligibility: "may", compared: view.compared };
    const done = view.done ? [outcome(view.done.result, { way: view.done.way }), h("p", {}, texts.doneText)] : null;
    const parts = {
        interrupt,
        kind: view.kind,
        content: view.content,
        decision: view.panel?.describe() ?? null,
        done,
        notice: notices(view),
        side: [linkFacts(link, now, view.done !== null)],
    };
    return interruptPage(parts, facts);
}

function notices(view) {
    const { link, notice, done } = view;
    const words = link.intent === "inspect" ? texts.lookOnly : texts.decidesNothing;
    return [
        notice ? h("p", { class: "notice", role: "status", key: "notice" }, notice) : null,
        done ? null : h("p", { class: "notice", key: "link" }, words),
    ];
}

/** Describes the link: its principal, and its expiry until the answer is sent. The last minutes are highlighted. */
function linkFacts(link, now, isDone) {
    const left_ms = instant(link.expiresAt) - now;
    const attributes = { class: left_ms <= LAST_MS ? "deadline-soon" : undefined, datetime: link.expiresAt, title: absolute(link.expiresAt) };
    return h(
        "section",
        { class: "side-part" },
        h("p", {}, texts.onBehalfOf(nameOf(link.for))),
        isDone || !(left_ms > 0) ? null : h("p", {}, h("time", attributes, texts.expiresIn(duration(left_ms).replaceAll(" ", NO_BREAK)))),
    );
}

/** Describes the title and the decision of the interrupt, if the error of the server has them. */
function about({ problem, context }) {
    const { title, answeredBy, answeredAt, action } = problem?.details ?? {};
    const when = answeredAt ? [" ", time(answeredAt, context.now())] : null;
    return [
        typeof title === "string" ? h("p", { class: "untrusted" }, shortText(title, MESSAGE_CHARACTERS)) : null,
        answeredBy ? h("p", {}, `${nameOf(answeredBy)} ${pastActionText(action ?? "answered")}`, when, ".") : null,
    ];
}

/** Describes a link without an open interrupt, with the reason. */
function unavailable(view) {
    const { title, text } = texts.states[view.state ?? "failed"];
    const retry = async () => {
        await load(view);
        view.context.redraw();
    };
    const mayRetry = view.state === "failed" || view.state === "busy";
    const detail =
        view.problem?.message && ["failed", "busy"].includes(view.state)
            ? problemText(view.problem)
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
