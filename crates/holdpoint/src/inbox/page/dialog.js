//! Dialogs, as `dialog` elements of the browser. They keep the focus inside and return it when they close.

import { h, render, update } from "./dom.js";

let count = 0;

/**
 * Opens a dialog. Escape closes it, unless `mayClose` returns false.
 * @param {Document} document
 * @param {{title: string | (() => string), describe: (close: () => void) => import("./dom.js").Description[], mayClose?: () => boolean,
 *   closed?: () => void, class?: string}} what
 */
export function openDialog(document, { title, describe, mayClose = () => true, closed = () => {}, class: name = "" }) {
    count += 1;
    const id = `dialog-${count}`;
    const before = document.activeElement;
    const attributes = { class: `dialog ${name}`.trim(), "aria-labelledby": id, on: { cancel: refuse, close: closedByBrowser } };
    const element = render(h("dialog", attributes), document);

    function refuse(event) {
        if (!mayClose()) {
            event.preventDefault();
        }
    }

    function closedByBrowser() {
        // The close event arrives later. A focus that the user has moved in the meantime stays.
        const focus = document.activeElement;
        const isLost = !focus || focus === document.body || element.contains(focus);
        element.remove();
        // The browser returns the focus only to an element that is still connected.
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
    // Shown before the content is drawn, so that the element with `autofocus` gets the focus instead of the first one.
    element.showModal();
    redraw();
    return { redraw, close };
}
