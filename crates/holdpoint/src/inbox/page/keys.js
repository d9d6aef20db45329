//! Keyboard shortcuts in one table, which the key handler and the help use.
//!
//! A shortcut is one key without Ctrl, Alt or Meta. Shortcuts are off while the user types or a dialog is open.

import { h } from "./dom.js";

const OFF = "holdpoint.keys";

/**
 * @typedef {{key: string, text: string, act: (event: KeyboardEvent) => void, isHidden?: boolean}} Key
 *
 * @param {{document: Document, storage: Storage | null, own: () => Key[], view: () => Key[]}} options
 *   `own` returns the shortcuts of the page, `view` those of the current view, which take precedence.
 */
export function startKeys({ document, storage, own, view }) {
    let isOn = read(storage) !== "off";
    document.addEventListener("keydown", (event) => {
        const found = keyFor(event, isOn ? [...view(), ...own()] : own().filter((key) => key.isAlwaysOn));
        if (found && !document.querySelector("dialog[open]")) {
            event.preventDefault();
            found.act(event);
        }
    });
    return {
        isOn: () => isOn,
        turn(on) {
            isOn = on;
            write(storage, on ? "on" : "off");
        },
    };
}

/** Returns the shortcut of the table for an event, or undefined. */
export function keyFor(event, table) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || isTyping(event.target)) {
        return undefined;
    }
    return table.find(({ key }) => key === event.key);
}

/** Returns whether the focused element takes typed keys itself. */
export function isTyping(target) {
    const tag = target?.localName;
    if (tag === "input") {
        return !["checkbox", "radio", "button", "submit", "reset"].includes(target.type);
    }
    return tag === "textarea" || tag === "select" || Boolean(target?.isContentEditable);
}

/** Describes the table for the help. */
export function describeKeys(groups, texts) {
    return groups.filter(({ keys }) => keys.length > 0).map(({ title, keys }) =>
        h("section", { class: "keys" }, h("h3", {}, title),
            h("dl", { class: "key-table" }, keys.filter((key) => !key.isHidden).map(({ key, text }) =>
                h("div", {}, h("dt", {}, h("kbd", {}, texts.keyNames[key] ?? key)), h("dd", {}, text))))));
}

function read(storage) {
    try {
        return storage?.getItem(OFF) ?? "on";
    } catch {
        return "on";
    }
}

function write(storage, value) {
    try {
        storage?.setItem(OFF, value);
    } catch {
        // Storage is not available: the setting applies until the page is closed.
    }
}
