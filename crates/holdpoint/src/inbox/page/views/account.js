//! The dialog with the sessions of the key.

import { h } from "../dom.js";
import { relative, time } from "../show/time.js";

export function showSessions({ api, texts, announce, dialog }) {
    const { shell } = texts;
    let found = null;
    let problem = null;

    async function load() {
        try {
            found = (await api.get("/v1/sessions")).sessions;
            problem = null;
        } catch (reason) {
            problem = reason.message;
        }
        shown.redraw();
    }

    async function end(session) {
        try {
            await api.remove(`/v1/sessions/${encodeURIComponent(session.sessionId)}`);
            announce(shell.sessionEnded);
        } catch (reason) {
            problem = reason.message;
        }
        await load();
    }

    const shown = dialog({
        title: shell.sessionsTitle,
        describe: (close) => [
            h("p", { class: "muted" }, shell.sessionsLead),
            problem && h("p", { class: "notice notice-bad", role: "alert" }, problem),
            found === null && !problem && h("p", {}, shell.loading),
            found && h("ul", { class: "session-list" }, found.map((session) => row(session, { shell, now: api.now(), end }))),
            found?.length === 1 && h("p", { class: "muted" }, shell.noOtherSessions),
            h("div", { class: "actions" }, h("button", { type: "button", class: "button", autofocus: true, on: { click: close } }, shell.close)),
        ],
    });
    load();
}

function row(session, { shell, now, end }) {
    return h("li", { key: session.sessionId },
        h("div", {}, h("strong", {}, session.current ? shell.thisSession : shell.session),
            h("div", { class: "muted" }, shell.sessionFrom, time(session.createdAt, now), ", ", shell.sessionUsed, time(session.usedAt, now))),
        !session.current && h("button", {
            type: "button", class: "button danger", "aria-label": shell.endSessionOf(relative(session.createdAt, now)), on: { click: () => end(session) },
        }, shell.endSession));
}
