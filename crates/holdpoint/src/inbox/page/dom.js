//! Descriptions of elements, and the only code that creates elements from them.
//!
//! A description is plain data: `{tag, attrs, on, key, later, children}`, or a string, which is always text. Data of
//! the API is a string in a description, never a tag, an attribute name or markup. A tag or an attribute name that is
//! not in the allowlist is a bug of the page and throws.

import { isAllowedName, isAllowedTag, linkAttributes, safeHref } from "./allowed.js";

const SVG = "http://www.w3.org/2000/svg";
/** The last description of each node. An update compares descriptions, so that typed text stays. */
const described = new WeakMap();
/** The handlers of each element. One listener per event name calls the newest handler. */
const handlers = new WeakMap();
/** The keys of the deferred parts that have been expanded, by parent element. */
const expandedKeys = new WeakMap();
const OWN = "its own";
const LOOK_AHEAD = 8;

/**
 * @typedef {{tag: string, attrs: Object, on: Object, key?: string, later?: () => Description[], children: Description[]}} Element
 * @typedef {Element | string} Description
 *
 * `attributes` may also have `on` (`{click: function}`), `key` (identifies a sibling in an update) and `later` (returns
 * content that is described only when the user opens it).
 * @param {string} tag
 * @param {Object} [attributes]
 * @returns {Element}
 */
export function h(tag, attributes, ...children) {
    const { on = {}, key, later, ...attrs } = attributes ?? {};
    return { tag, attrs, on, key, later, children: flat(children) };
}

/** Describes a button that a click replaces with the result of `later`. Siblings need different keys. */
export function more(label, later, key = "more", wrap = (button) => button) {
    const button = h("button", { type: "button", class: "more" }, label);
    return { ...wrap(button), key, later };
}

/** Describes a folded part. Its content is described only after it is opened. */
export function folded(label, later, attributes = {}) {
    return h("details", { ...attributes, later }, h("summary", {}, label));
}

/**
 * Creates the element. The caller inserts it.
 * @param {Description} description
 * @param {Document} document
 */
export function render(description, document) {
    return make(description, document, false);
}

/**
 * Updates the content of `container` to the descriptions with as few changes as possible: elements that stay keep their
 * focus, scroll position and typed text. A `value` is written when its description changes. A part that must not reuse
 * elements, for another interrupt for example, needs another `key`.
 * @param {Element} container
 */
export function update(container, ...children) {
    const document = container.ownerDocument;
    const focus = document.activeElement;
    const focusTargets = [];
    place(container, flat(children), document, isSvg(container), focusTargets);
    const target = focusTargets.at(-1);
    if (target) {
        target.focus();
    } else if (focus && focus !== document.activeElement && container.contains(focus)) {
        // A node that is moved among its siblings loses the focus.
        focus.focus();
    }
}

export { safeHref };

function flat(children) {
    const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== true);
    return kept.map((child) => (typeof child === "object" ? child : String(child)));
}

function make(description, document, inSvg, focusTargets = []) {
    if (typeof description === "string") {
        const node = document.createTextNode(description);
        described.set(node, description);
        return node;
    }
    const { tag, attrs, on } = description;
    if (!isAllowedTag(tag)) {
        throw new Error(`the tag ${tag} is not allowed on this page`);
    }
    const svg = inSvg || tag === "svg";
    const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributesOf(attrs, document))) {
        element.setAttribute(name, value);
    }
    listen(element, {}, on);
    prepareExpansion(element, description, document);
    place(element, childrenOf(element, description), document, svg, focusTargets);
    // Set after the children: the value of a select refers to its options.
    setValue(element, {}, attrs);
    if (attrs.autofocus) {
        focusTargets.push(element);
    }
    described.set(element, description);
    return element;
}

/** Updates the children of a parent. Children with a key are matched by the key, the others by their order. */
function place(parent, children, document, svg, focusTargets) {
    const next = expanded(parent, children);
    const reused = match(Array.from(parent.childNodes), next);
    const stay = new Set(reused);
    for (const node of Array.from(parent.childNodes)) {
        if (!stay.has(node)) {
            parent.removeChild(node);
        }
    }
    let reference = parent.firstChild;
    next.forEach((description, position) => {
        const old = reused[position];
        const node = old ? patch(old, description, document, svg, focusTargets) : make(description, document, svg, focusTargets);
        if (node === reference) {
            reference = reference.nextSibling;
        } else {
            parent.insertBefore(node, reference);
        }
    });
}

function match(nodes, next) {
    const keyed = new Map();
    const others = [];
    for (const node of nodes) {
        const before = described.get(node);
        if (before === undefined) {
            continue;
        }
        if (before.key === undefined) {
            others.push(node);
        } else {
            keyed.set(before.key, node);
        }
    }
    let from = 0;
    return next.map((description) => {
        if (description.key !== undefined) {
            const node = keyed.get(description.key);
            keyed.delete(description.key);
            return node && fits(node, description) ? node : undefined;
        }
        // Searches only forward and a few nodes ahead. Elements that must survive a new order need keys.
        for (let index = from; index < Math.min(from + LOOK_AHEAD, others.length); index += 1) {
            if (fits(others[index], description)) {
                from = index + 1;
                return others[index];
            }
        }
        return undefined;
    });
}

function fits(node, description) {
    const before = described.get(node);
    if (typeof before === "string" || typeof description === "string") {
        return typeof before === typeof description;
    }
    // An input of another type must not keep the typed text.
    return before.tag === description.tag && before.attrs.type === description.attrs.type;
}

function patch(node, description, document, inSvg, focusTargets) {
    const before = described.get(node);
    if (before === description) {
        return node;
    }
    described.set(node, description);
    if (typeof description === "string") {
        if (before !== description) {
            node.nodeValue = description;
        }
        return node;
    }
    const old = attributesOf(before.attrs, document);
    const attributes = attributesOf(description.attrs, document);
    for (const name of Object.keys(old)) {
        if (!(name in attributes)) {
            node.removeAttribute(name);
        }
    }
    for (const [name, value] of Object.entries(attributes)) {
        if (old[name] !== value) {
            node.setAttribute(name, value);
        }
    }
    listen(node, before.on, description.on);
    place(node, childrenOf(node, description), document, inSvg || description.tag === "svg", focusTargets);
    setValue(node, before.attrs, description.attrs);
    if (description.attrs.autofocus && !before.attrs.autofocus) {
        focusTargets.push(node);
    }
    return node;
}

/**
 * Returns the attributes to write: checks the names, converts values to text and adds the attributes of external
 * links.
 */
function attributesOf(attrs, document) {
    const found = {};
    for (const [name, value] of Object.entries(attrs)) {
        if (!isAllowedName(name)) {
            throw new Error(`the attribute ${name} is not allowed on this page`);
        }
        if (name === "value" || name === "checked" || name === "selected" || name === "autofocus") {
            continue;
        }
        if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) {
            continue;
        }
        if (typeof value === "function" || typeof value === "object") {
            throw new Error(`the attribute ${name} must be a string`);
        }
        if (name === "href") {
            Object.assign(found, linkAttributes(value, document.baseURI));
        } else {
            // ARIA attributes need the text `true` or `false`; other boolean attributes only have to be present.
            found[name] = value === true && !name.startsWith("aria-") ? "" : String(value);
        }
    }
    return found;
}

/** Sets values as properties, only if the description has changed: between changes they belong to the user. */
function setValue(element, before, after) {
    for (const name of ["checked", "selected"]) {
        if (Boolean(before[name]) !== Boolean(after[name])) {
            element[name] = Boolean(after[name]);
        }
    }
    if (after.value === undefined || before.value === after.value) {
        return;
    }
    const text = String(after.value);
    if (element.value !== text) {
        element.value = text;
    }
}

function listen(element, before, after) {
    const current = handlers.get(element) ?? {};
    handlers.set(element, current);
    for (const name of Object.keys(before)) {
        if (!(name in after)) {
            current[name] = undefined;
        }
    }
    for (const [name, handler] of Object.entries(after)) {
        if (typeof handler !== "function") {
            throw new Error(`the handler of ${name} must be a function`);
        }
        const known = name in current;
        current[name] = handler;
        if (!known) {
            element.addEventListener(name, (event) => handlers.get(element)[name]?.(event));
        }
    }
}

function prepareExpansion(element, description, document) {
    if (!description.later) {
        return;
    }
    if (description.tag !== "details") {
        element.addEventListener("click", () => expandInPlace(element, document));
        return;
    }
    if (description.attrs.open) {
        markExpanded(element, OWN);
    }
    element.addEventListener("toggle", () => {
        const now = described.get(element);
        if (element.open && now.later && !expandedKeys.get(element)?.has(OWN)) {
            markExpanded(element, OWN);
            place(element, childrenOf(element, now), document, false, []);
        }
    });
}

function markExpanded(element, key) {
    const keys = expandedKeys.get(element) ?? new Set();
    expandedKeys.set(element, keys.add(key));
}

function childrenOf(element, description) {
    if (description.tag === "details" && description.later && expandedKeys.get(element)?.has(OWN)) {
        return [...description.children, ...flat([description.later()])];
    }
    return description.children;
}

/** Returns the children with the expanded parts in place of their buttons. */
function expanded(parent, children) {
    const keys = expandedKeys.get(parent);
    if (!keys) {
        return children;
    }
    return children.flatMap((child) => {
        const asked = child.later && child.tag !== "details" && keys.has(child.key);
        return asked ? expanded(parent, flat([child.later()])) : [child];
    });
}

/** Replaces a button with its deferred part, and moves the focus to the first element of the part. */
function expandInPlace(element, document) {
    const parent = element.parentNode;
    const description = described.get(element);
    if (!parent || !description.later) {
        return;
    }
    markExpanded(parent, description.key);
    const added = flat([description.later()]).map((child) => make(child, document, isSvg(parent)));
    for (const node of added) {
        parent.insertBefore(node, element);
    }
    parent.removeChild(element);
    const first = added.find((node) => node.nodeType === 1);
    if (first) {
        if (!first.hasAttribute("tabindex") && first.localName !== "button") {
            first.setAttribute("tabindex", "-1");
        }
        first.focus();
    }
}

function isSvg(element) {
    return element.namespaceURI === SVG;
}
