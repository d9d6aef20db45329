//! Where somebody decides: the ways that are offered, the form of the chosen one, what is asked before it is sent, and
//! what came of it. Knows nothing of kinds: each kind says its ways.

import { h } from "../dom.js";
import { pause as texts } from "../texts/pause.js";
import { refusal } from "./refusals.js";

/** Which key stands for a word in an address: `?do=edit` opens the editor. Nothing is ever sent by an address. */
const WORDS = { accept: "a", reject: "r", edit: "e" };

/**
 * @typedef {Object} Way one way to answer
 * @property {string} id
 * @property {string} label what its button says
 * @property {"accept" | "reject" | "plain"} look
 * @property {string} [key] of the keyboard
 * @property {{describe: Function, read: Function}} [fields] what is asked for it; without, the label says it all
 * @property {boolean} [isOpen] its fields are the question itself, and shown from the start
 * @property {string} [prefix] what the value of the fields is called in the request
 * @property {(value: unknown) => unknown} build the answer, from the value of the fields
 * @property {(value: unknown) => import("../dom.js").Description} [review] shown before it is sent
 * @property {import("../dom.js").Description} [about] above the fields
 * @property {boolean} [isEmptyHanded] what is reviewed may not be sent: nothing was changed
 * @property {string} [submit] what the button that sends says
 *
 * @param {Object} options
 * @param {Way[]} options.ways
 * @param {string} [options.heading]
 * @param {string} [options.id] begins the ids of elements; differs among the panels of a page
 * @param {(answer: unknown, way: Way) => Promise<unknown>} options.send rejects with the error of the API
 * @param {(result: unknown, way: Way) => void} options.sent
 * @param {(told: Object) => void} [options.over] the state must be fetched again
 * @param {() => void} options.redraw
 * @param {(text: string) => void} [options.announce] told where the focus went
 * @param {boolean} [options.confirmsAll] also what needs no form is confirmed first
 */
export function panel(options) {
    const { ways } = options;
    const state = {
        way: ways.find((way) => way.isOpen) ?? null,
        step: "fill",
        errors: {},
        told: null,
        isSending: false,
        answer: undefined,
        value: undefined,
        turn: 0,
    };
    const act = {
        choose: (way) => choose(state, way, options),
        submit: () => submit(state, options),
        confirm: () => deliver(state, options),
        back: () => back(state, options),
    };
    const open = (word) => {
        const way = ways.find(({ id, key }) => id === word || key === WORDS[word]);
        if (way?.fields && !way.isOpen) {
            act.choose(way);
        }
    };
    return {
        open,
        describe: () => describe(state, act, options),
        keys: () =>
            (isFilling(state) ? [] : ways.filter((way) => way.key && !way.isOpen)).map((way) => ({
                key: way.key,
                text: way.label,
                act: (event) => (sendsAtOnce(way, options) ? point(way, event, options) : act.choose(way)),
            })),
    };
}

/**
 * Describes a form again when its shape has changed. Not at once: a field that is taken away while it has the focus says so
 * in the middle of an update, and another update within it would pull the elements from under it.
 */
export function afterChange(redraw) {
    return ({ isShape }) => isShape && queueMicrotask(redraw);
}

/** Whether choosing it is all there is to it: no form, nothing to look at or to confirm first. */
function sendsAtOnce(way, { confirmsAll }) {
    return !way.fields && !way.review && !way.asksFirst && !confirmsAll;
}

/** A single key never decides: it leads to the button, and Enter presses that. */
function point(way, event, options) {
    event.target.ownerDocument.getElementById(buttonId(way, options))?.focus();
    options.announce?.(texts.enterTo(way.label));
}

function buttonId(way, { ways, id = "decide" }) {
    return `${id}-way-${ways.indexOf(way)}`;
}

/** Whether somebody is in the middle of a way: then no key begins another. */
function isFilling({ way, step, isSending }) {
    return isSending || step === "confirm" || Boolean(way?.fields && !way.isOpen);
}

function choose(state, way, options) {
    if (state.isSending) {
        return;
    }
    Object.assign(state, { way, errors: {}, told: null, step: "fill", turn: state.turn + 1 });
    if (way.fields) {
        options.redraw();
        return;
    }
    state.answer = way.build();
    if (sendsAtOnce(way, options)) {
        deliver(state, options);
        return;
    }
    state.step = "confirm";
    options.redraw();
}

function submit(state, options) {
    const { way } = state;
    if (state.isSending) {
        return;
    }
    const { value, errors } = way.fields.read();
    const found = Object.keys(errors).length > 0 ? errors : (way.check?.(value) ?? {});
    state.errors = found;
    state.told = null;
    if (Object.keys(found).length > 0) {
        options.redraw();
        return;
    }
    state.value = value;
    state.answer = way.build(value);
    if (way.review || (options.confirmsAll && way.isOpen)) {
        state.step = "confirm";
        options.redraw();
        return;
    }
    deliver(state, options);
}

function back(state, options) {
    const staysOpen = state.way?.isOpen || (state.step === "confirm" && state.way?.fields);
    const first = options.ways.find((way) => way.isOpen) ?? null;
    Object.assign(state, { way: staysOpen ? state.way : first, step: "fill", told: null, turn: state.turn + 1 });
    options.redraw();
}

async function deliver(state, options) {
    const { way, answer } = state;
    if (state.isSending) {
        return;
    }
    Object.assign(state, { isSending: true, told: null });
    options.redraw();
    try {
        const result = await options.send(answer, way);
        Object.assign(state, { isSending: false, way: options.ways.find((other) => other.isOpen) ?? null, step: "fill" });
        options.sent(result, way);
    } catch (error) {
        refused(state, error, options);
    }
    options.redraw();
}

function refused(state, error, options) {
    // A mistake of this page is no refusal of the server: it must be seen.
    if (typeof error?.status !== "number") {
        state.isSending = false;
        throw error;
    }
    const told = refusal(error, state.way?.prefix);
    const hasPlace = told.errors && state.way?.fields;
    Object.assign(state, { isSending: false, told: hasPlace ? null : told, errors: hasPlace ? told.errors : {} });
    if (hasPlace || told.mayRepeat === false) {
        state.step = "fill";
    }
    if (told.isOver) {
        state.way = null;
        options.over?.(told);
    }
}

function describe(state, act, options) {
    const { ways, heading, id = "decide" } = options;
    const chosen = state.way;
    const others = ways.filter((way) => !way.isOpen);
    // One thing at a time: while a way is filled in, the others are behind its “Cancel”.
    const showsBar = others.length > 0 && state.step === "fill" && (!chosen?.fields || chosen.isOpen);
    return h(
        "section",
        { class: "decide", "aria-labelledby": heading ? `${id}-heading` : undefined, "aria-busy": state.isSending, key: id },
        heading ? h("h2", { id: `${id}-heading` }, heading) : null,
        told(state, act),
        chosen?.fields && state.step === "fill" ? fill(state, act, options) : null,
        chosen && state.step === "confirm" ? confirmation(state, act, id) : null,
        showsBar
            ? h(
                  "div",
                  { class: "decide-bar", key: "bar" },
                  others.map((way) => button(way, state, act, options)),
              )
            : null,
        h("p", { class: "decide-status", role: "status" }, state.isSending && chosen ? texts.sending(chosen.label) : ""),
    );
}

function told(state, act) {
    if (!state.told) {
        return null;
    }
    const again = state.told.mayRepeat && state.way;
    return h(
        "div",
        { class: "notice notice-warn", role: "alert", key: "told" },
        h("p", {}, state.told.words),
        state.told.detail ? h("p", { class: "notice-detail" }, state.told.detail) : null,
        again ? h("button", { type: "button", class: "button", on: { click: act.confirm } }, texts.tryAgain) : null,
    );
}

function button(way, state, act, options) {
    const isChosen = state.way === way && Boolean(way.fields);
    return h(
        "button",
        {
            type: "button",
            id: buttonId(way, options),
            class: buttonClass(way),
            key: way.id,
            "aria-expanded": way.fields ? isChosen : undefined,
            "aria-disabled": state.isSending || undefined,
            "aria-keyshortcuts": way.key,
            on: { click: () => act.choose(way) },
        },
        way.label,
        way.key ? h("kbd", { "aria-hidden": true }, way.key) : null,
    );
}

function buttonClass({ look }) {
    return ["button", look === "accept" && "primary", look === "reject" && "danger"].filter(Boolean).join(" ");
}

/** The button that sends stands out: it is the only one to press. */
function submitClass({ look }) {
    return look === "reject" ? "button danger solid" : "button primary";
}

// Leaving a field may change its height, and a button that moves between press and release is not clicked.
function stay(event) {
    event.preventDefault();
}

function fill(state, act, { id = "decide", confirmsAll }) {
    const { way } = state;
    // It is sent without another look: whoever has filled it in has had theirs. A question decides nothing.
    const isFinal = confirmsAll && !way.isOpen && !way.review && way.id !== "ask";
    const submitted = (event) => {
        event.preventDefault();
        act.submit();
    };
    const escaped = (event) => event.key === "Escape" && !way.isOpen && act.back();
    const isNew = !way.isOpen;
    return h(
        "form",
        {
            class: "way",
            novalidate: true,
            key: `way ${way.id}`,
            on: { submit: submitted, keydown: escaped },
            "aria-labelledby": isNew ? `${id}-way` : `${id}-heading`,
        },
        isNew ? h("h3", { id: `${id}-way`, tabindex: -1, autofocus: true, key: `heading ${state.turn}` }, way.label) : null,
        way.about,
        way.fields.describe({ errors: state.errors }),
        isFinal ? h("p", { class: "muted" }, texts.final) : null,
        h(
            "div",
            { class: "actions" },
            h(
                "button",
                {
                    type: "submit",
                    class: submitClass(way),
                    "aria-disabled": state.isSending || undefined,
                    on: { mousedown: stay },
                },
                way.review ? texts.review : (way.submit ?? way.label),
            ),
            isNew ? h("button", { type: "button", class: "button", on: { click: act.back } }, texts.cancel) : null,
        ),
    );
}

/** The last look before something is sent. */
function confirmation(state, act, id) {
    const { way } = state;
    const review = way.review?.(state.value);
    const isEmpty = way.isEmptyHanded?.(state.value) ?? false;
    return h(
        "section",
        {
            class: "way confirm",
            key: `confirm ${way.id}`,
            "aria-labelledby": `${id}-confirm`,
            on: { keydown: (event) => event.key === "Escape" && act.back() },
        },
        h("h3", { id: `${id}-confirm`, tabindex: -1, autofocus: true, key: `confirm ${state.turn}` }, texts.sure(way.label)),
        review ?? h("p", {}, texts.confirmText(way.label)),
        isEmpty ? h("p", { class: "notice" }, texts.changesNothing) : null,
        h(
            "div",
            { class: "actions" },
            isEmpty
                ? null
                : h(
                      "button",
                      {
                          type: "button",
                          class: submitClass(way),
                          "aria-disabled": state.isSending || undefined,
                          on: { click: act.confirm },
                      },
                      texts.yes(way.label),
                  ),
            h("button", { type: "button", class: "button", on: { click: act.back } }, texts.back),
        ),
    );
}
