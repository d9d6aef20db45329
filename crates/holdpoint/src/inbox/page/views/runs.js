//! The view of the list of runs. Connects the model, the shortcuts and the periodic refresh.

import { h } from "../dom.js";
import { createMover } from "../list/mover.js";
import { pager } from "../list/pager.js";
import { paths } from "../router.js";
import { createModel, GROUPS, groupFrom, searchOf } from "../runs/model.js";
import { rows } from "../runs/rows.js";
import { runs as texts } from "../texts/runs.js";
import { principalKey } from "./top.js";

const REFRESH_MS = 10_000;

/**
 * The position in the list when the view was closed, to return to it. It belongs to a principal: another principal
 * starts at the first page.
 */
let lastPosition = null;

export async function open(context) {
    const { api, params, redraw, document } = context;
    const group = groupFrom(params);
    const person = principalKey(context.session);
    const before = lastPosition?.person === person && lastPosition.group === group ? lastPosition : null;
    const mover = createMover(document);
    const model = createModel({ api, group, trail: before?.trail, changed: redraw });
    const view = { context, model, mover, timer: null };
    mover.remember(before?.run ?? null);
    begin(view, before?.run);
    return {
        title: texts.title,
        describe: () => describe(view),
        keys: () => keysOf(view),
        close() {
            lastPosition = { person, group: model.state.group, trail: model.state.wanted, run: mover.current() ?? mover.last() };
            clearTimeout(view.timer);
            view.isClosed = true;
        },
    };
}

async function begin(view, run) {
    await view.model.load();
    if (run) {
        view.mover.to(run);
    }
    tick(view);
}

/** Refreshes the runs periodically, unless the page is hidden. */
function tick(view) {
    if (view.isClosed) {
        return;
    }
    view.timer = setTimeout(async () => {
        if (!view.context.document.hidden) {
            await view.model.refresh();
        }
        tick(view);
    }, REFRESH_MS);
}

function describe(view) {
    const { model, context } = view;
    const { state } = model;
    const { shell, list } = context.texts;
    const around = { now: context.now(), href: (runId) => context.href(context.paths.run(runId)) };
    return h("div", { class: "list", key: "runs" },
        h("div", { class: "page-head", key: "head" },
            h("h1", {}, texts.title),
            h("p", { class: "muted" }, texts.lead),
            state.isOld && h("button", { key: "refresh", type: "button", class: "button new-items", on: { click: () => model.load() } }, texts.refresh)),
        groups(view),
        state.problem && h("div", { key: "problem", class: "notice notice-bad", role: "alert" },
            state.problem.status === 403 ? texts.noScope : texts.failed(state.problem.message), " ",
            h("button", { type: "button", class: "link", on: { click: () => model.load() } }, shell.tryAgain)),
        !state.hasLoaded && h("p", { key: "loading", class: "muted loading" }, shell.loading),
        state.items.length > 0 && rows(state, around),
        state.hasLoaded && !state.problem && state.items.length === 0 && empty(view),
        pager({
            texts: list, page: state.trail.length, hasNext: state.next !== null, isTurning: state.isLoading && state.hasLoaded,
            next: () => turnPage(view, model.next, "toFirst"), previous: () => turnPage(view, model.previous, "toFirst"),
        }));
}

function groups(view) {
    const one = (group) => h("button", {
        key: group, type: "button", class: "kind-choice", "aria-pressed": view.model.state.group === group ? "true" : "false", on: { click: () => choose(view, group) },
    }, texts.groups[group]);
    return h("div", { class: "toolbar", key: "toolbar" }, h("div", { class: "kinds", role: "group", "aria-label": texts.filter }, Object.keys(GROUPS).map(one)));
}

function empty(view) {
    const { state } = view.model;
    const isAll = state.group === "all";
    const title = state.trail.length > 1 ? texts.emptyPage : isAll ? texts.nothing : texts.nothingSuch;
    return h("section", { class: "empty", key: "empty" },
        h("h2", {}, title),
        isAll && h("p", { class: "muted" }, texts.nothingLead),
        !isAll && h("button", { type: "button", class: "button", on: { click: () => choose(view, "all") } }, texts.showAll));
}

async function choose(view, group) {
    const { model, context } = view;
    const loaded = model.choose(group);
    context.remember(paths.runs() + searchOf(group));
    if (await loaded) {
        context.announce(texts.loaded(model.state.items.length));
    }
}

/** Turns the page and moves the focus: the focused button or run may be gone. */
async function turnPage(view, turn, where) {
    if (await turn()) {
        view.mover[where]();
        view.context.announce(view.context.texts.list.page(view.model.state.trail.length));
    }
}

async function move(view, step) {
    if (!view.mover.move(step)) {
        await turnPage(view, step > 0 ? view.model.next : view.model.previous, step > 0 ? "toFirst" : "toLast");
    }
}

function keysOf(view) {
    const { model, mover, context } = view;
    const openRun = () => {
        const runId = mover.current() ?? mover.last();
        if (runId) {
            context.navigate(context.paths.run(runId));
        }
    };
    return [
        { key: "j", text: texts.keyDown, act: () => move(view, 1) },
        { key: "k", text: texts.keyUp, act: () => move(view, -1) },
        { key: "o", text: texts.keyOpen, act: openRun },
        { key: "]", text: texts.keyNextPage, act: () => turnPage(view, model.next, "toFirst") },
        { key: "[", text: texts.keyPreviousPage, act: () => turnPage(view, model.previous, "toFirst") },
    ];
}
