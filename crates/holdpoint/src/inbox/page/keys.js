//! Keys that do something, in one table: what is pressed is looked up here, and the help shows the same.
//!
//! One plain key each, never together with Ctrl, Alt or the like, never while somebody types, never below an open dialog.

import { h } from "./dom.js";

const OFF = "holdpoint.keys";

/**
 * @typedef {{key: string, text: string, act: (event: KeyboardEvent) => void, isHidden?: boolean}} Key
 *
 * @param {{document: Document, storage: Storage | null, own: () => Key[], view: () => Key[]}} options
 *   `own` are those of the whole page, `view` those of what is shown; the view's go first.
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

/** Which key of the table is meant, if any. */
export function keyFor(event, table) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || isTyping(event.target)) {
        return undefined;
    }
    return table.find(({ key }) => key === event.key);
}

/** Whether keys belong to what has the focus. */
export function isTyping(target) {
    const tag = target?.localName;
    if (tag === "input") {
        return !["checkbox", "radio", "button", "submit", "reset"].includes(target.type);
    }
    return tag === "textarea" || tag === "select" || Boolean(target?.isContentEditable);
}

/** The table, to read. */
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
        // A browser that keeps nothing: it holds until the page is left.
    }
}
