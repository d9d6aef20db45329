//! The decision panel: the buttons, the form of the chosen answer, the confirmation, and the refusal of the server.
//! Does not know the kinds of interrupts: each kind passes its ways to answer.

import { h } from "../dom.js";
import { interrupt as texts } from "../texts/interrupt.js";
import { refusal } from "./refusals.js";

/**
 * The shortcut for each value of `do` in the address: `?do=edit` opens the editor. An address never sends an answer.
 */
const WORDS = { accept: "a", reject: "r", edit: "e" };

/**
 * @typedef {Object} Way a way to answer: a button with an optional form
 * @property {string} id
 * @property {string} label the text of its button
 * @property {"accept" | "reject" | "plain"} look
 * @property {string} [key] the keyboard shortcut
 * @property {{describe: Function, read: Function}} [fields] the form; without it the button is the whole answer
 * @property {boolean} [isOpen] its fields are shown from the start
 * @property {string} [prefix] the path of the form's value in the request
 * @property {(value: unknown) => unknown} build returns the answer for the value of the fields
 * @property {(value: unknown) => import("../dom.js").Description} [review] describes the answer for confirmation
 * @property {import("../dom.js").Description} [about] shown above the fields
 * @property {(value: unknown) => boolean} [isUnchanged] returns whether the value has no changes; it cannot be sent then
 * @property {string} [submit] the text of the submit button
 *
 * @param {Object} options
 * @param {Way[]} options.ways
 * @param {string} [options.heading]
 * @param {string} [options.id] prefix of the element ids; unique on a page
 * @param {(answer: unknown, way: Way) => Promise<unknown>} options.send rejects with the error of the API
 * @param {(result: unknown, way: Way) => void} options.sent
 * @param {(refusal: Object) => void} [options.over] called if the interrupt must be loaded again
 * @param {() => void} options.redraw
 * @param {(text: string) => void} [options.announce] announces a moved focus
 * @param {boolean} [options.confirmsAll] answers without a form are confirmed, too
 */
export function panel(options) {
    const { ways } = options;
    const state = {
        way: ways.find((way) => way.isOpen) ?? null,
        step: "fill",
        errors: {},
        refusal: null,
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
 * Returns a change handler that redraws after the shape of a form has changed. The redraw is deferred: removing a
 * focused field fires an event during an update, and a nested update would remove elements that the outer update still
 * uses.
 */
export function afterChange(redraw) {
    return ({ isShape }) => isShape && queueMicrotask(redraw);
}

/** Returns whether a click sends the answer: no form, no review and no confirmation. */
function sendsAtOnce(way, { confirmsAll }) {
    return !way.fields && !way.review && !way.confirmsFirst && !confirmsAll;
}

/** Focuses the button of an answer. A single key never decides: Enter presses the button. */
function point(way, event, options) {
    event.target.ownerDocument.getElementById(buttonId(way, options))?.focus();
    options.announce?.(texts.enterTo(way.label));
}

function buttonId(way, { ways, id = "decide" }) {
    return `${id}-way-${ways.indexOf(way)}`;
}

/** Returns whether an answer is being filled in, confirmed or sent. Shortcuts are off then. */
function isFilling({ way, step, isSending }) {
    return isSending || step === "confirm" || Boolean(way?.fields && !way.isOpen);
}

function choose(state, way, options) {
    if (state.isSending) {
        return;
    }
    Object.assign(state, { way, errors: {}, refusal: null, step: "fill", turn: state.turn + 1 });
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
    state.refusal = null;
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
    Object.assign(state, { way: staysOpen ? state.way : first, step: "fill", refusal: null, turn: state.turn + 1 });
    options.redraw();
}

async function deliver(state, options) {
    const { way, answer } = state;
    if (state.isSending) {
        return;
    }
    Object.assign(state, { isSending: true, refusal: null });
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
    // An exception of the page is not a refusal of the server: it must not be hidden.
    if (typeof error?.status !== "number") {
        state.isSending = false;
        throw error;
    }
    const found = refusal(error, state.way?.prefix);
    const hasPlace = found.errors && state.way?.fields;
    Object.assign(state, { isSending: false, refusal: hasPlace ? null : found, errors: hasPlace ? found.errors : {} });
    if (hasPlace || found.mayRepeat === false) {
        state.step = "fill";
    }
    if (found.isOver) {
        state.way = null;
        options.over?.(found);
    }
}

function describe(state, act, options) {
    const { ways, heading, id = "decide" } = options;
    const chosen = state.way;
    const others = ways.filter((way) => !way.isOpen);
    // While one answer is filled in, the other buttons are hidden until “Cancel”.
    const showsBar = others.length > 0 && state.step === "fill" && (!chosen?.fields || chosen.isOpen);
    return h(
        "section",
        { class: "decide", "aria-labelledby": heading ? `${id}-heading` : undefined, "aria-busy": state.isSending, key: id },
        heading ? h("h2", { id: `${id}-heading` }, heading) : null,
        refusalNotice(state, act),
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

function refusalNotice(state, act) {
    if (!state.refusal) {
        return null;
    }
    const again = state.refusal.mayRepeat && state.way;
    return h(
        "div",
        { class: "notice notice-warn", role: "alert", key: "refusal" },
        h("p", {}, state.refusal.words),
        state.refusal.detail ? h("p", { class: "notice-detail" }, state.refusal.detail) : null,
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

/** Returns the class of the submit button. It is the most prominent button of the form. */
function submitClass({ look }) {
    return look === "reject" ? "button danger solid" : "button primary";
}

// Leaving a field can change its height. A button that moves between press and release is not clicked.
function stay(event) {
    event.preventDefault();
}

function fill(state, act, { id = "decide", confirmsAll }) {
    const { way } = state;
    // A filled-in form is sent without a confirmation page. A side question decides nothing.
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

/** Describes the confirmation before an answer is sent. */
function confirmation(state, act, id) {
    const { way } = state;
    const review = way.review?.(state.value);
    const isEmpty = way.isUnchanged?.(state.value) ?? false;
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
