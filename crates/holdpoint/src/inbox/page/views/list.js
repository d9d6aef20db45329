//! The view of the list of pending interrupts. Connects the model, the stream of changes and the shortcuts.

import { h } from "../dom.js";
import { watch } from "../live.js";
import { askAndDecide } from "../list/bulk_dialog.js";
import { empty } from "../list/empty.js";
import { createModel } from "../list/model.js";
import { createMover } from "../list/mover.js";
import { pager } from "../list/pager.js";
import { countsQuery, filtersFrom, searchOf } from "../list/query.js";
import { rows } from "../list/rows.js";
import { head, selectionBar, toolbar } from "../list/toolbar.js";
import { paths } from "../router.js";
import { countdown } from "../show/time.js";
import { mayReadRuns, principalKey } from "./top.js";
import { welcome } from "./welcome.js";

const SEARCH_MS = 250;
/** The wait before a refresh: a burst of changes causes one refresh. */
const REFRESH_MS = 1000;
const TICK_MAX_MS = 30_000;
/** The polling interval of a hidden page. */
const HIDDEN_POLL_MS = 60_000;

/**
 * The position in the list when the view was closed, to return to it. It belongs to a principal: another principal
 * starts at the first page.
 */
let lastPosition = null;

export function open(context) {
    const { api, params, texts, redraw, announce, document } = context;
    const filters = filtersFrom(params);
    const person = principalKey(context.session);
    const before = lastPosition?.person === person && lastPosition.search === searchOf(filters) ? lastPosition : null;
    const mover = createMover(document);
    const model = createModel({
        api, filters, trail: before?.trail, selection: before?.selection, changed: redraw, itemsAdded: (amount) => announce(texts.list.newAnnounced(amount)),
    });
    const view = { context, model, mover, connection: "live", workflows: [], live: null, timers: {} };
    view.welcome = welcome({ ...context, started: () => model.load() });
    mover.remember(before?.item ?? null);

    view.visibilityChanged = () => (document.hidden ? pollWhileHidden(view) : listen(view));
    document.addEventListener("visibilitychange", view.visibilityChanged);
    begin(view, before?.item);
    return {
        title: () => titleOf(model.state, texts.list),
        describe: () => describe(view),
        keys: () => keysOf(view),
        close() {
            const { filters: last, wanted: trail, selection } = model.state;
            lastPosition = { person, search: searchOf(last), trail, selection, item: mover.current() ?? mover.last() };
            view.isClosed = true;
            view.live?.close();
            Object.values(view.timers).forEach(clearTimeout);
            document.removeEventListener("visibilitychange", view.visibilityChanged);
        },
    };
}

async function begin(view, item) {
    listen(view);
    await view.model.load();
    if (item) {
        view.mover.to(item);
    }
    tick(view);
}

function titleOf(state, texts) {
    const total = state.counts?.total ?? 0;
    const name = state.filters.isMine ? texts.titleMine : texts.title;
    return total > 0 ? `(${texts.number(total, state.counts.isComplete)}) ${name}` : name;
}

/** Opens the stream of changes for the current filters. */
function listen(view) {
    const { api } = view.context;
    const query = countsQuery(view.model.state.filters);
    clearTimeout(view.timers.hidden);
    view.live?.close();
    view.live = watch({
        url: api.address("/v1/interrupts/stream", query),
        poll: () => api.get("/v1/interrupts:counts", { query }),
        received: (counts) => scheduleRefresh(view, counts),
        changed: (how) => {
            if (how === "away" && view.connection !== "away") {
                view.context.announce(view.context.texts.list.away);
            }
            view.connection = how;
            view.context.redraw();
        },
    });
}

/** Closes the stream of a hidden page and polls instead: browsers have six connections for all pages of a server. */
function pollWhileHidden(view) {
    const { api } = view.context;
    view.live?.close();
    view.timers.hidden = setTimeout(async () => {
        const counts = await api.get("/v1/interrupts:counts", { query: countsQuery(view.model.state.filters) }).catch(() => null);
        if (counts && !view.isClosed) {
            scheduleRefresh(view, counts);
        }
        if (view.context.document.hidden && !view.isClosed) {
            pollWhileHidden(view);
        }
    }, HIDDEN_POLL_MS);
}

function scheduleRefresh(view, counts) {
    view.received = counts;
    view.timers.refresh ??= setTimeout(() => {
        view.timers.refresh = undefined;
        view.model.refresh(view.received);
    }, REFRESH_MS);
}

/** Redraws when a displayed time changes. */
function tick(view) {
    if (view.isClosed) {
        return;
    }
    const now = view.context.now();
    const waits = view.model.state.items.map((item) => countdown(item.expiresAt, now).changesInMs ?? TICK_MAX_MS);
    const wait = Math.max(1000, Math.min(TICK_MAX_MS, ...waits));
    view.timers.tick = setTimeout(() => {
        if (!view.context.document.hidden) {
            view.context.redraw();
        }
        tick(view);
    }, wait);
}

function describe(view) {
    const { model, context } = view;
    const { state } = model;
    const texts = context.texts.list;
    if (state.isFirstTime) {
        return view.welcome();
    }
    const around = aroundOf(view, texts);
    return h("div", { class: "list", key: "list" },
        head(state, around),
        toolbar(state, around),
        view.connection === "away" && !state.problem && h("p", { key: "away", class: "notice notice-warn" }, texts.away),
        state.problem && h("div", { key: "problem", class: "notice notice-bad", role: "alert" },
            state.problem.status === 403 ? texts.mayNot : texts.failed(state.problem.message), " ",
            h("button", { type: "button", class: "link", on: { click: () => model.load() } }, context.texts.shell.tryAgain)),
        selectionBar(state, around),
        state.isSelectionFull && h("p", { key: "full", class: "notice notice-warn", role: "status" }, texts.selectionFull(state.selection.size)),
        !state.hasLoaded && h("p", { key: "loading", class: "muted loading" }, context.texts.shell.loading),
        state.items.length > 0 && rows(state, around),
        state.hasLoaded && !state.problem && state.items.length === 0 && empty(state, around),
        pages(state, around));
}

function aroundOf(view, texts) {
    const { model, context } = view;
    return {
        texts, shell: context.texts.shell, connection: view.connection, now: context.now(), workflows: view.workflows,
        href: (item) => context.href(context.paths.item(item)),
        runs: mayReadRuns(context.session) ? context.href(paths.runs()) : null,
        filter: (change) => filter(view, change),
        search: (event) => search(view, event.target.value),
        opened: (event) => event.target.open && loadWorkflows(view),
        select: model.select, selectPage: model.selectPage, clear: model.clearSelection,
        accept: () => decide(view, "accept"),
        reject: () => decide(view, "reject"),
        showNew: () => showNew(view),
        refresh: () => model.load(),
        isTurning: model.isTurning(),
        next: () => turnPage(view, model.next, "toFirst"),
        previous: () => turnPage(view, model.previous, "toFirst"),
    };
}

function pages(state, { texts, isTurning, next, previous }) {
    const isSearch = state.filters.text.trim() !== "";
    const isOver = state.nextCursor === null;
    return state.hasLoaded && pager({
        texts, page: state.trail.length, hasNext: !isOver, isTurning, next, previous, isAlways: isSearch,
        nextText: isSearch ? texts.searchOn(state.scanned) : texts.next,
        place: isSearch && isOver ? texts.searchOver(state.scanned) : texts.page(state.trail.length),
    });
}

async function filter(view, change) {
    const { model, context } = view;
    const loaded = model.filter(change);
    context.remember(paths.list() + searchOf(model.state.filters));
    if ("isMine" in change || "workflowId" in change || "tag" in change) {
        listen(view);
    }
    await loaded;
    context.announce(context.texts.list.loaded(model.state.items.length));
}

function search(view, text) {
    clearTimeout(view.timers.search);
    view.timers.search = setTimeout(() => filter(view, { text }), SEARCH_MS);
}

async function loadWorkflows(view) {
    const answer = await view.context.api.get("/v1/workflows").catch(() => ({ workflows: [] }));
    view.workflows = answer.workflows.map(({ id }) => id).sort();
    view.context.redraw();
}

async function showNew(view) {
    const { model, mover } = view;
    const known = new Set(model.state.items.map((item) => item.interruptId));
    await filter(view, model.newPlace());
    const first = model.state.items.find((item) => !known.has(item.interruptId));
    if (first) {
        mover.to(first.interruptId);
    } else {
        mover.toFirst();
    }
}

/** Turns the page and moves the focus: the focused button or item may be gone. */
async function turnPage(view, turn, where) {
    if (view.model.isTurning()) {
        view.context.announce(view.context.texts.shell.loading);
        return false;
    }
    if (await turn()) {
        view.mover[where]();
        view.context.announce(view.context.texts.list.page(view.model.state.trail.length));
        return true;
    }
    return false;
}

async function move(view, step) {
    if (!view.mover.move(step)) {
        await turnPage(view, step > 0 ? view.model.next : view.model.previous, step > 0 ? "toFirst" : "toLast");
    }
}

function currentItem(view) {
    const id = view.mover.current() ?? view.mover.last();
    return view.model.state.items.find((item) => item.interruptId === id);
}

/** Decides the selected items, or the focused item if there is no selection. */
function decide(view, action) {
    const { model, context } = view;
    const current = currentItem(view);
    const isOne = model.state.selection.size === 0 && current?.kind === "approval" && !model.state.gone.has(current.interruptId);
    const items = isOne ? [current] : [...model.state.selection.values()];
    if (items.length === 0) {
        context.announce(current ? context.texts.list.onlyApprovals : context.texts.list.chooseFirst);
        return;
    }
    askAndDecide({
        items, action, api: context.api, texts: context.texts.list, shell: context.texts.shell, dialog: context.dialog, announce: context.announce,
        done: () => afterDeciding(view, items),
    });
}

/** Reloads the list after a decision. The focus moves to the item that is now at the same position. */
async function afterDeciding(view, items) {
    const { model, mover } = view;
    const at = model.state.items.findIndex((item) => item.interruptId === mover.last() || item.interruptId === items[0].interruptId);
    model.clearSelection();
    await model.load();
    const next = model.state.items[Math.min(Math.max(at, 0), model.state.items.length - 1)];
    if (next) {
        mover.to(next.interruptId);
    }
}

function keysOf(view) {
    const { model, context } = view;
    const texts = context.texts.list;
    if (model.state.isFirstTime) {
        return [];
    }
    const openItem = (search = "") => {
        const item = currentItem(view);
        if (item) {
            const path = context.paths.item(item);
            context.navigate(path + (path.includes("?") ? search.replace("?", "&") : search));
        }
    };
    const toggle = () => {
        const item = currentItem(view);
        if (item && item.kind !== "approval") {
            context.announce(texts.onlyApprovals);
        } else if (item) {
            model.select(item, !model.state.selection.has(item.interruptId));
        }
    };
    return [
        { key: "j", text: texts.keyDown, act: () => move(view, 1) },
        { key: "k", text: texts.keyUp, act: () => move(view, -1) },
        { key: "o", text: texts.keyOpen, act: () => openItem() },
        { key: "x", text: texts.keySelect, act: toggle },
        { key: "a", text: texts.keyAccept, act: () => decide(view, "accept") },
        { key: "r", text: texts.keyReject, act: () => decide(view, "reject") },
        { key: "e", text: texts.keyEdit, act: () => openItem("?do=edit") },
        { key: "/", text: texts.keySearch, act: () => context.document.getElementById("search")?.focus() },
        { key: "n", text: texts.keyNew, act: () => model.state.added > 0 && showNew(view) },
        { key: "m", text: texts.keyMine, act: () => filter(view, { isMine: !model.state.filters.isMine }) },
        { key: "]", text: texts.keyNextPage, act: () => turnPage(view, model.next, "toFirst") },
        { key: "[", text: texts.keyPreviousPage, act: () => turnPage(view, model.previous, "toFirst") },
    ];
}
