//! The view of the timeline of a run: status, events, state at each event, and controls. Follows an active run.

import { h } from "../dom.js";
import { outcomeLine } from "../decide/history.js";
import { headline, isHold } from "../decide/model.js";
import { problemText } from "../decide/refusals.js";
import { createIdempotencyKeys } from "../decide/requests.js";
import { definitionOf, interruptsOf } from "../decide/store.js";
import { draw } from "../graph/draw.js";
import { run as texts } from "../texts/run.js";
import { controlPanel, forkPanel } from "../timeline/control.js";
import { detail } from "../timeline/detail.js";
import { events } from "../timeline/events.js";
import { childInterrupts, children, head, inputs, rejectedStep, runLink, runTitle } from "../timeline/head.js";
import { isFinished, visitsOf } from "../timeline/model.js";
import { snapshotAt } from "../timeline/snapshots.js";
import { steps } from "../timeline/steps.js";

const POLL_SECONDS = 25;
const RETRY_MS = 3_000;
const TICK_MS = 10_000;

export async function open(context) {
    const view = {
        context,
        keyFor: createIdempotencyKeys(),
        abort: new AbortController(),
        run: null,
        log: [],
        visits: [],
        interrupts: [],
        workflow: null,
        why: null,
        problem: null,
        shown: { filter: "all", nodeId: context.params.node ?? null, page: null, selected: null },
        state: null,
        reading: null,
        control: null,
        fork: null,
        forks: 0,
        turn: 0,
        notice: null,
        isLive: true,
        timer: null,
    };
    await load(view);
    if (view.run) {
        follow(view);
        tick(view);
    }
    return {
        title: () => (view.run ? runTitle(view.run, view.interrupts) : undefined),
        describe: () => describe(view),
        keys: () => [],
        close() {
            view.abort.abort();
            view.reading?.close();
            clearTimeout(view.timer);
        },
    };
}

function base(view) {
    return `/v1/runs/${encodeURIComponent(view.context.params.runId)}`;
}

async function load(view) {
    const { api, session } = view.context;
    try {
        const [run, log] = await Promise.all([
            api.get(base(view)),
            api.get(`${base(view)}/events`, { query: { streamMode: "debug" } }),
        ]);
        view.problem = null;
        setRun(view, run);
        addEvents(view, log.events);
    } catch (error) {
        if (typeof error?.status !== "number") {
            throw error;
        }
        view.problem = error;
        return;
    }
    const [interrupts, definition] = await Promise.all([
        interruptsOf(api, view.run.runId).catch(() => []),
        isHold(view.run.workflowId) ? { workflow: null, why: null } : definitionOf(api, view.run.workflowId, session?.scopes),
    ]);
    Object.assign(view, { interrupts, ...definition });
}

/** @param {import("../../api-types.js").RunSnapshot} run */
function setRun(view, run) {
    const { api, session, redraw } = view.context;
    const before = view.run?.status;
    view.run = run;
    if (before !== run.status) {
        const done = async (label) => {
            view.notice = label ? texts.did(label) : null;
            await refresh(view);
        };
        view.turn += 1;
        view.control = controlPanel({ run, api, scopes: session?.scopes, keyFor: view.keyFor, redraw, done, turn: view.turn });
    }
}

/** @param {import("../../api-types.js").Event[]} added */
function addEvents(view, added) {
    const last = view.log.at(-1)?.sequence ?? -1;
    const fresh = added.filter(({ sequence }) => sequence > last);
    if (fresh.length > 0) {
        view.log = [...view.log, ...fresh];
        view.visits = visitsOf(view.log);
    }
    return fresh.length;
}

async function refresh(view) {
    const { api, redraw } = view.context;
    const [run, interrupts] = await Promise.all([api.get(base(view)), interruptsOf(api, view.run.runId).catch(() => view.interrupts)]);
    setRun(view, run);
    view.interrupts = interrupts;
    redraw();
}

/** Follows the events of the run by long polling. */
async function follow(view) {
    const { api, redraw } = view.context;
    const { signal } = view.abort;
    while (!signal.aborted && !isFinished(view.run.status)) {
        try {
            const lastSequence = view.log.at(-1)?.sequence ?? -1;
            /** @type {import("../../api-types.js").EventPage} */
            const answer = await api.get(`${base(view)}/events/poll`, {
                query: { lastSequence, timeout: POLL_SECONDS, streamMode: "debug" },
                signal,
            });
            view.isLive = true;
            if (addEvents(view, answer.events) > 0) {
                await refresh(view);
            }
        } catch {
            if (signal.aborted) {
                return;
            }
            view.isLive = false;
            redraw();
            await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
    }
}

function tick(view) {
    view.timer = setTimeout(() => {
        view.context.redraw();
        tick(view);
    }, TICK_MS);
}

function set(view, change) {
    const before = view.shown.selected;
    Object.assign(view.shown, change);
    if (view.shown.selected !== before) {
        select(view, view.shown.selected);
    }
    view.context.redraw();
}

/** Loads the state at an event, and cancels the previous load. */
function select(view, sequence) {
    const { api, redraw, session } = view.context;
    view.reading?.close();
    Object.assign(view, { state: null, reading: null, fork: null });
    if (sequence === null) {
        return;
    }
    const state = { isLoading: true, sequence };
    view.state = state;
    view.reading = snapshotAt(api.address(`${base(view)}/events`, { streamMode: "values" }), sequence);
    view.reading.result.then((found) => {
        Object.assign(state, { isLoading: false, found });
        redraw();
    });
    const forked = {
        count: () => view.forks,
        done: (result) => {
            view.forks += 1;
            view.notice = { forked: result.runId };
        },
    };
    view.fork = forkPanel({ run: view.run, sequence, api, scopes: session?.scopes, keyFor: view.keyFor, redraw, forked });
}

function describe(view) {
    const { context, run } = view;
    if (!run) {
        return failed(view);
    }
    const now = context.now();
    const link = (runId) => context.href(context.paths.run(runId));
    const names = new Map((view.workflow?.nodes ?? []).map(({ id, name }) => [id, name]));
    const choose = (nodeId) => set(view, { nodeId, page: null, selected: null });
    return h(
        "article",
        { class: "run", key: run.runId },
        head(run, { now, link, names, interrupts: view.interrupts }),
        notice(view, link),
        view.control?.describe() ?? null,
        drawing(view, choose),
        interruptList(view, now),
        steps(visitsShown(view), { run, now, names, nodeId: view.shown.nodeId, select: choose }),
        events(view.log, {
            ...view.shown,
            names,
            set: (change) => set(view, change),
            detail: (event) => detail(event, { log: view.log, state: view.state, fork: view.fork?.describe() ?? null }),
        }),
        childInterrupts(run, (interrupt) => context.href(context.paths.item(interrupt))),
        children(run, link),
        inputs(run),
        isFinished(run.status) ? null : h("p", { class: "muted" }, view.isLive ? texts.live : texts.notLive),
    );
}

function visitsShown({ visits, run }) {
    const step = rejectedStep(run);
    const isIt = ({ nodeId, status }) => nodeId === step && status === "failed";
    return step === undefined ? visits : visits.map((visit) => (isIt(visit) ? { ...visit, status: "rejected" } : visit));
}

function notice(view, link) {
    if (!view.notice) {
        return null;
    }
    const words = view.notice.forked ? [texts.forkDone, " ", runLink(view.notice.forked, link)] : view.notice;
    return h("p", { class: "notice notice-good", role: "status" }, words);
}

/** Describes the workflow with the current state, or with the state after the selected event. */
function drawing(view, choose) {
    const { workflow, run, state } = view;
    if (!workflow) {
        return view.why && h("p", { class: "muted" }, view.why);
    }
    const then = state?.found?.at;
    const shown = then ?? run;
    const states = markRejected(shown.nodeStates ?? {}, rejectedStep(run));
    const isOther = workflow.version !== run.workflowVersion;
    return h(
        "section",
        { class: "card", "aria-labelledby": "drawing-heading" },
        h("h2", { id: "drawing-heading" }, then ? texts.drawingThen(state.sequence) : texts.drawing),
        isOther ? h("p", { class: "muted" }, texts.newerRevision) : null,
        draw(workflow, states, shown.currentNodeId ?? null, { id: "run-graph", select: choose }),
    );
}

/** Marks the step at which the run was rejected as rejected instead of failed. */
function markRejected(states, step) {
    const isIt = step !== undefined && states[step]?.status === "failed";
    return isIt ? { ...states, [step]: { ...states[step], status: "rejected" } } : states;
}

function interruptList(view, now) {
    const { context, interrupts } = view;
    const shown = interrupts.filter(({ kind }) => kind !== "conversation.start" && kind !== "conversation.close").slice(-50);
    const href = (interrupt) => context.href(context.paths.item(interrupt));
    return h(
        "section",
        { class: "card asked", "aria-labelledby": "asked-heading" },
        h("h2", { id: "asked-heading" }, texts.interrupts),
        shown.length === 0
            ? h("p", { class: "nothing" }, texts.noInterrupts)
            : h(
                  "ul",
                  {},
                  shown.map((interrupt) =>
                      h(
                          "li",
                          { key: interrupt.interruptId },
                          h("a", { href: href(interrupt) }, headline(interrupt)),
                          outcomeLine(interrupt, now),
                      ),
                  ),
              ),
    );
}

function failed(view) {
    const { problem, context } = view;
    const words =
        problem.status === 404
            ? texts.gone
            : problem.status === 403
              ? texts.noScope
              : problemText(problem);
    const retry = async () => {
        await load(view);
        context.redraw();
    };
    return h(
        "div",
        { class: "empty" },
        h("h1", {}, texts.loadFailed),
        h("p", {}, words),
        h(
            "p",
            {},
            h("button", { type: "button", class: "button", on: { click: retry } }, texts.reload),
            " ",
            h("a", { class: "button", href: context.href(context.paths.list()) }, texts.toList),
        ),
    );
}
