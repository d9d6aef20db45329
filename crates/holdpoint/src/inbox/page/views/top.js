//! The bar above every view: links to the list and the runs, and the account menu.

import { h } from "../dom.js";
import { shortText } from "../show/characters.js";
import { absolute } from "../show/time.js";
import { paths } from "../router.js";

/** @param {{session: Object, shown: string, list: string}} around `shown` is the name of the view, `list` the last address of the list */
export function topBar({ session, shown, texts, href, list, showKeys, signOut, showSessions }) {
    const { shell } = texts;
    const principal = shortText(session.principal, 60);
    const place = (view, path, text) => h("a", { key: view, class: "place", href: href(path), "aria-current": shown === view ? "page" : undefined }, text);
    return [
        h("a", { key: "brand", class: "brand", href: href(paths.list()) },
            h("span", { class: "brand-sign" }, ""), h("span", { class: "brand-name" }, shell.product)),
        h("nav", { key: "places", class: "places", "aria-label": shell.places },
            place("list", list, shell.inbox),
            mayReadRuns(session) && place("runs", paths.runs(), shell.runs)),
        h("div", { key: "right", class: "top-right" },
            h("button", { type: "button", class: "button quiet only-with-keys", title: shell.keysTitle, on: { click: showKeys } }, h("kbd", {}, "?"), ` ${shell.keys}`),
            h("details", { class: "account", on: { keydown: closeAtEscape, focusout: closeWhenLeft } },
                h("summary", { class: "button quiet", title: shell.account(principal) },
                    h("span", { class: "account-name" }, principal), h("span", { class: "caret" }, "")),
                h("div", { class: "account-menu card" }, facts(session, shell), scopes(session, shell),
                    h("button", { type: "button", class: "button", on: { click: closing(showSessions) } }, shell.sessions),
                    h("button", { type: "button", class: "button", on: { click: closing(signOut) } }, shell.signOut)))),
    ];
}

/** Returns a key for the principal of a session. Several sessions of a principal have the same key. */
export function principalKey(session) {
    return JSON.stringify([session?.tenant, session?.principal]);
}

/** Returns whether a session may read runs. If the session does not list its scopes, the server checks it. */
export function mayReadRuns(session) {
    return !session?.scopes || session.scopes.includes("runs:read");
}

function facts(session, shell) {
    const many = (names) => (names?.length ? names.map((name) => shortText(name, 80)).join(", ") : null);
    const rows = [
        [shell.you, shortText(session.principal, 120)],
        [shell.tenant, shortText(session.tenant, 120)],
        [shell.roles, many(session.roles)],
        [shell.groups, many(session.groups)],
        [shell.until, session.sessionId && session.expiresAt ? absolute(session.expiresAt) : null],
    ];
    return h("dl", { class: "facts" }, rows.filter(([, value]) => value).map(([name, value]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function scopes({ scopes: all }, shell) {
    return h("details", { class: "scopes" }, h("summary", {}, shell.scopes),
        all?.length ? h("ul", { tabindex: 0, "aria-label": shell.scopes }, all.map((scope) => h("li", {}, h("code", {}, shortText(scope, 80))))) : h("p", { class: "muted" }, shell.none));
}

function closing(act) {
    return (event) => {
        event.currentTarget.closest("details").open = false;
        act();
    };
}

function closeAtEscape(event) {
    const details = event.currentTarget;
    if (event.key === "Escape" && details.open) {
        details.open = false;
        details.querySelector("summary").focus();
    }
}

function closeWhenLeft(event) {
    if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) {
        event.currentTarget.open = false;
    }
}
