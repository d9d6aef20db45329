//! The bar above every view: where the list and the runs are, and who is signed in.

import { h } from "../dom.js";
import { shortText } from "../show/characters.js";
import { absolute } from "../show/time.js";
import { paths } from "../router.js";

/** @param {{session: Object, shown: string, list: string}} around `shown` is the view, `list` the address of the list as it was left */
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

/** Who is signed in. Somebody who signs in again is the same, in whichever session. */
export function personOf(session) {
    return JSON.stringify([session?.tenant, session?.principal]);
}

/** Where a session does not say what it may, the server judges. */
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
