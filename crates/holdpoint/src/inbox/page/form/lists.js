//! Lists in a form: items can be added, removed and moved. The focus stays at the changed position.

import { h } from "../dom.js";
import { form as texts } from "../texts/form.js";
import { addItem, moveItem, removeItem } from "./state.js";

/** @param {(state, field, pointer, errors) => import("../dom.js").Description} drawField draws an item */
export function drawList(view, drawField) {
    const { field, state, pointer, errors, id } = view;
    const items = field.items.map((item, position) => {
        const drawn = drawField(state, item, `${pointer}/${position}`, errors);
        return h("li", { key: `item ${item.id}` }, drawn, h("div", { class: "item-buttons" }, buttons(view, position)));
    });
    const isFull = field.items.length >= field.plan.schema.maxItems;
    const add = () => {
        if (isFull) {
            return;
        }
        const item = addItem(state, field);
        state.focus = `${state.id}-${item.id}`;
        state.change({ isShape: true });
    };
    const addId = `${id}-add`;
    const attributes = { id: addId, type: "button", class: "add", "aria-disabled": isFull, autofocus: state.focus === addId };
    return [
        items.length === 0 ? h("p", { class: "nothing" }, texts.noItems) : h("ol", { class: "items" }, items),
        h("button", { ...attributes, on: { click: add } }, texts.addItem),
    ];
}

// `aria-disabled` instead of `disabled`: a button that is disabled while it has the focus loses it.
function buttons(view, position) {
    const { field, state, id } = view;
    const name = texts.item(position + 1);
    const last = field.items.length - 1;
    const move = (to) => () => {
        if (to < 0 || to > last) {
            return;
        }
        moveItem(field, position, to);
        state.change({ isShape: true });
    };
    const remove = () => {
        removeItem(field, position);
        // The focus moves to the remove button at the same position, or to the add button.
        const next = field.items[Math.min(position, last - 1)];
        state.focus = next ? `${id}-remove-${next.id}` : `${id}-add`;
        state.change({ isShape: true });
    };
    const removeId = `${id}-remove-${field.items[position].id}`;
    return [
        button(texts.moveUp(name), "↑", { class: "move", "aria-disabled": position === 0, on: { click: move(position - 1) } }),
        button(texts.moveDown(name), "↓", { class: "move", "aria-disabled": position === last, on: { click: move(position + 1) } }),
        button(texts.remove(name), "✕", { id: removeId, class: "remove", autofocus: state.focus === removeId, on: { click: remove } }),
    ];
}

function button(label, sign, attributes) {
    return h("button", { type: "button", "aria-label": label, title: label, ...attributes }, h("span", { "aria-hidden": true }, sign));
}
