//! Dialogs: one element of the browser's own kind, which keeps the focus inside and gives it back.

import { h, render, update } from "./dom.js";

let count = 0;

/**
 * Opens a dialog. Escape closes it, unless `mayClose` says no.
 * @param {Document} document
 * @param {{title: string | (() => string), describe: (close: () => void) => import("./dom.js").Description[], mayClose?: () => boolean,
 *   closed?: () => void, class?: string}} what
 */
export function openDialog(document, { title, describe, mayClose = () => true, closed = () => {}, class: name = "" }) {
    count += 1;
    const id = `dialog-${count}`;
    const before = document.activeElement;
    const attributes = { class: `dialog ${name}`.trim(), "aria-labelledby": id, on: { cancel: refuse, close: left } };
    const element = render(h("dialog", attributes), document);

    function refuse(event) {
        if (!mayClose()) {
            event.preventDefault();
        }
    }

    function left() {
        // This is told a moment after it was closed: whoever has gone on meanwhile keeps the focus.
        const focus = document.activeElement;
        const isLost = !focus || focus === document.body || element.contains(focus);
        element.remove();
        // The browser gives the focus back only to what is still there.
        if (isLost && before?.isConnected) {
            before.focus();
        }
        closed();
    }

    function close() {
        if (element.open) {
            element.close();
        }
    }

    function redraw() {
        if (element.isConnected) {
            update(element, h("h2", { id }, typeof title === "function" ? title() : title), describe(close));
        }
    }

    document.getElementById("dialogs").append(element);
    // Shown first, so that what asks for the focus gets it, and not what happens to be the first.
    element.showModal();
    redraw();
    return { redraw, close };
}
