//! The view to sign in with a key. The key is sent once and not stored.

import { h } from "../dom.js";
import { program } from "./welcome.js";

export function open({ api, params, texts, redraw, signedIn, document }) {
    const { shell } = texts;
    const state = { notice: params.notice, error: null, isSending: false };

    async function submit(event) {
        event.preventDefault();
        const field = document.getElementById("key");
        const key = field.value.trim();
        if (state.isSending) {
            return;
        }
        Object.assign(state, { notice: undefined, error: key ? null : shell.keyEmpty, isSending: Boolean(key) });
        redraw();
        if (!key) {
            field.focus();
            return;
        }
        try {
            const session = await api.post("/v1/session", { key }, { isQuiet: true });
            field.value = "";
            signedIn(session);
        } catch (problem) {
            Object.assign(state, { error: reasonOf(problem, shell), isSending: false });
            redraw();
            field.focus();
        }
    }

    return {
        title: shell.signIn,
        close: () => {},
        describe: () => h("div", { class: "signin" },
            h("div", { class: "card" },
                h("p", { class: "brand brand-large" }, h("span", { class: "brand-sign" }, ""), h("span", { class: "brand-name" }, shell.product)),
                h("h1", {}, shell.signIn),
                h("p", { class: "muted" }, shell.signInLead),
                state.notice && h("p", { class: "notice", role: "status" }, state.notice),
                form(state, shell, submit),
                where(shell))),
    };
}

function form(state, shell, submit) {
    const describedBy = state.error ? "key-error key-kept" : "key-kept";
    return h("form", { novalidate: true, on: { submit } },
        h("label", { for: "key" }, shell.keyLabel),
        h("input", {
            id: "key", type: "password", name: "key", autocomplete: "current-password", spellcheck: "false", required: true, autofocus: true,
            placeholder: shell.keyPlaceholder, "aria-describedby": describedBy, "aria-invalid": state.error ? "true" : undefined,
        }),
        state.error && h("p", { id: "key-error", class: "field-error", role: "alert" }, state.error),
        h("p", { id: "key-kept", class: "hint" }, shell.keyKept),
        h("button", { type: "submit", class: "button primary wide", "aria-disabled": state.isSending ? "true" : undefined }, state.isSending ? shell.signingIn : shell.signIn));
}

function where(shell) {
    const withCode = ([before, code, after]) => h("li", {}, before, h("code", {}, code), after);
    return h("details", { class: "where" }, h("summary", {}, shell.keyWhere),
        h("ul", {}, withCode(shell.keyWhereFile), withCode(shell.keyWhereLink), h("li", {}, shell.keyWhereOperator)),
        program(shell));
}

function reasonOf(problem, shell) {
    if (problem.status === 401) {
        return shell.keyWrong;
    }
    return problem.status === 429 ? shell.tooOften : problem.message;
}
