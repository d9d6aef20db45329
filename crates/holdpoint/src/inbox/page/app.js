//! The inbox: the session, the view for the current address, and the frame around the view.

import { createApi } from "./api.js";
import { openDialog } from "./dialog.js";
import { h, update } from "./dom.js";
import { describeKeys, startKeys } from "./keys.js";
import { onceOf, paths, prefixOf, startRouter } from "./router.js";
import { texts } from "./texts.js";
import { showSessions } from "./views/account.js";
import { topBar } from "./views/top.js";

const VIEWS = {
    list: () => import("./views/list.js"),
    interrupt: () => import("./views/interrupt.js"),
    run: () => import("./views/run.js"),
    runs: () => import("./views/runs.js"),
    signin: () => import("./views/signin.js"),
};

const main = document.getElementById("main");
const top_bar = document.getElementById("top");
const live_region = document.getElementById("announce");
const prefix = prefixOf(import.meta.url);

let session = null;
let view = null;
let shown_name = null;
/** The path of the list with its last filters. Links back to the list use it. */
let list_path = paths.list();
/** Counts the opened views. A view that is loaded after a later one was requested is not shown. */
let turn = 0;
let isDrawing = false;
let isDrawnAgain = false;

const api = createApi({ root: prefix, fetch: (...call) => fetch(...call), isSignedOut });
const router = startRouter(window, prefix, show);
const keys = startKeys({ document, storage: storageOf(window), own: ownKeys, view: viewKeys });

start();

async function start() {
    const once = onceOf(location.hash);
    let notice;
    if (once) {
        // Removed from the address and the history immediately: the token is a secret, although it works only once.
        history.replaceState(null, "", location.pathname + location.search);
        notice = await signInOnce(once);
    }
    session = await api.get("/v1/session", { isQuiet: true }).catch(() => null);
    if (session) {
        show(router.current());
    } else {
        await open("signin", { notice });
    }
}

async function signInOnce(once) {
    try {
        await api.post("/v1/session", { once }, { isQuiet: true });
        return undefined;
    } catch (problem) {
        return problem.status === 401 ? texts.shell.linkUsed : problem.message;
    }
}

/** Shows the view of an address if the user is signed in. */
function show(route) {
    if (!session) {
        return;
    }
    if (route.view === "list") {
        list_path = paths.list() + location.search;
    }
    open(route.view, route.params);
}

async function open(name, params) {
    turn += 1;
    const mine = turn;
    view?.close();
    view = null;
    main.setAttribute("aria-busy", "true");
    const opened = await make(name, params, () => mine === turn && draw());
    if (mine !== turn) {
        opened.close();
        return;
    }
    view = opened;
    shown_name = name;
    main.removeAttribute("aria-busy");
    draw();
    focusView();
}

async function make(name, params, redraw) {
    if (!VIEWS[name]) {
        return plain(texts.shell.notFoundTitle, texts.shell.notFound);
    }
    try {
        const module = await VIEWS[name]();
        return await module.open(contextOf(params, redraw));
    } catch (problem) {
        console.error(problem);
        return plain(texts.shell.notFoundTitle, problem?.code ? problem.message : texts.shell.viewMissing);
    }
}

/** Returns the functions and data that a view may use. */
function contextOf(params, redraw) {
    return {
        api, session, params, texts, redraw, announce,
        paths: { ...paths, list: () => list_path },
        navigate: router.navigate,
        href: router.href,
        remember,
        now: () => api.now(),
        dialog: (what) => openDialog(document, what),
        signedIn,
        document,
    };
}

/** Changes the address without a new view. Links back to the list use the last address of the list. */
function remember(path) {
    if (shown_name === "list") {
        list_path = path;
    }
    router.remember(path);
}

function plain(title, text) {
    const describe = () => h("div", { class: "empty" }, h("h1", {}, title), h("p", {}, text),
        h("p", {}, h("a", { class: "button", href: router.href(paths.list()) }, texts.shell.toInbox)));
    return { describe, close: () => {}, title };
}

/**
 * Draws the view. A draw can move the focus, and a focus handler can request another draw: it follows after this
 * one.
 */
function draw() {
    if (isDrawing) {
        isDrawnAgain = true;
        return;
    }
    isDrawing = true;
    isDrawnAgain = false;
    try {
        drawOnce();
    } finally {
        isDrawing = false;
    }
    if (isDrawnAgain) {
        queueMicrotask(() => view && draw());
    }
}

function drawOnce() {
    const { name, isBare } = titleOf(view);
    document.title = texts.shell.title(name);
    update(top_bar, isBare ? [] : topBar({ session, shown: shown_name, texts, href: router.href, list: list_path, showKeys, signOut, showSessions: sessions }));
    if (view) {
        // Each view has its own elements: the next view does not reuse typed text or focus.
        update(main, h("div", { class: "view", key: `view ${turn}` }, describe()));
    }
}

function describe() {
    try {
        return view.describe();
    } catch (reason) {
        console.error(reason);
        return h("p", { class: "notice notice-bad", role: "alert", key: "broken" }, texts.shell.broken);
    }
}

function titleOf(shown) {
    const name = typeof shown?.title === "function" ? shown.title() : shown?.title;
    return { name, isBare: !session };
}

/** Moves the focus and the scroll position to the top of a new view, unless the view has set the focus itself. */
function focusView() {
    if (!main.contains(document.activeElement)) {
        main.focus({ preventScroll: true });
        window.scrollTo(0, view?.scrollTop ?? 0);
    }
}

function announce(text) {
    // The added space makes the text different: a screen reader announces only changes.
    live_region.textContent = live_region.textContent === text ? `${text}\u00a0` : text;
}

function isSignedOut() {
    if (session) {
        session = null;
        open("signin", { notice: texts.shell.sessionOver });
    }
}

function signedIn(found) {
    session = found;
    show(router.current());
}

async function signOut() {
    await api.remove("/v1/session", { isQuiet: true }).catch(() => {});
    session = null;
    open("signin", { notice: texts.shell.signedOut });
}

function sessions() {
    showSessions({ api, texts, announce, dialog: (what) => openDialog(document, what) });
}

function viewKeys() {
    const own = view?.keys;
    return (typeof own === "function" ? own() : own) ?? [];
}

function ownKeys() {
    const toInbox = { key: "i", text: texts.shell.keyInbox, act: () => session && router.navigate(list_path) };
    return [toInbox, { key: "?", text: texts.shell.keyHelp, act: showKeys, isAlwaysOn: true }];
}

function showKeys() {
    const groups = [
        { title: texts.shell.keysHere, keys: viewKeys() },
        { title: texts.shell.keysEverywhere, keys: ownKeys() },
    ];
    openDialog(document, {
        title: texts.shell.keysTitle,
        class: "dialog-keys",
        describe: (close) => [
            describeKeys(groups, texts.shell),
            h("label", { class: "check" },
                h("input", { type: "checkbox", checked: keys.isOn(), on: { change: (event) => keys.turn(event.target.checked) } }),
                h("span", {}, texts.shell.keysOn)),
            h("p", { class: "muted" }, texts.shell.keysOff),
            h("div", { class: "actions" }, h("button", { type: "button", class: "button", autofocus: true, on: { click: close } }, texts.shell.close)),
        ],
    });
}

function storageOf(from) {
    try {
        return from.localStorage;
    } catch {
        return null;
    }
}
