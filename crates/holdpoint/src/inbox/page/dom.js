//! Descriptions of the page, and the only place that turns them into elements.
//!
//! A description is plain data: `{tag, attrs, on, key, later, children}`, or a string, which is always text. Everything
//! that comes from the API is a string in a description, never a tag, the name of an attribute or markup; a tag or a
//! name that is not on the lists below is a mistake of ours and throws.

import { isAllowedName, isAllowedTag, linkAttributes, safeHref } from "./allowed.js";

const SVG = "http://www.w3.org/2000/svg";
/** What was described last, by node: an update compares descriptions, so that what people typed stays. */
const described = new WeakMap();
/** The handlers of an element; one listener for each name looks up the newest. */
const handlers = new WeakMap();
/** Which parts that come later have been asked for: by element, a set of keys. */
const grown = new WeakMap();
const OWN = "its own";
const LOOK_AHEAD = 8;

/**
 * @typedef {{tag: string, attrs: Object, on: Object, key?: string, later?: () => Description[], children: Description[]}} Element
 * @typedef {Element | string} Description
 *
 * `attributes` may also have `on` (`{click: function}`), `key` (tells siblings apart in an update) and `later`.
 * @param {string} tag
 * @param {Object} [attributes]
 * @returns {Element}
 */
export function h(tag, attributes, ...children) {
    const { on = {}, key, later, ...attrs } = attributes ?? {};
    return { tag, attrs, on, key, later, children: flat(children) };
}

/** A button that is replaced by what `later` returns, once somebody wants to see it. Keys differ among siblings. */
export function more(label, later, key = "more", wrap = (button) => button) {
    const button = h("button", { type: "button", class: "more" }, label);
    return { ...wrap(button), key, later };
}

/** A part that is folded away, and whose content is not even described before it is opened. */
export function folded(label, later, attributes = {}) {
    return h("details", { ...attributes, later }, h("summary", {}, label));
}

/**
 * Makes the element. The caller inserts it.
 * @param {Description} description
 * @param {Document} document
 */
export function render(description, document) {
    return make(description, document, false);
}

/**
 * Makes the content of `container` be what is described, with as few changes as it takes: elements that stay keep their
 * focus, their scroll position and what was typed into them. A `value` is written when its description changes; a part
 * that must start anew, for another pause for example, gets another `key`.
 * @param {Element} container
 */
export function update(container, ...children) {
    const document = container.ownerDocument;
    const focus = document.activeElement;
    const wanted = [];
    place(container, flat(children), document, isSvg(container), wanted);
    const target = wanted.at(-1);
    if (target) {
        target.focus();
    } else if (focus && focus !== document.activeElement && container.contains(focus)) {
        // A node that was moved among its siblings has lost it on the way.
        focus.focus();
    }
}

export { safeHref };

function flat(children) {
    const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== true);
    return kept.map((child) => (typeof child === "object" ? child : String(child)));
}

function make(description, document, inSvg, wanted = []) {
    if (typeof description === "string") {
        const node = document.createTextNode(description);
        described.set(node, description);
        return node;
    }
    const { tag, attrs, on } = description;
    if (!isAllowedTag(tag)) {
        throw new Error(`not a tag for this page: ${tag}`);
    }
    const svg = inSvg || tag === "svg";
    const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributesOf(attrs, document))) {
        element.setAttribute(name, value);
    }
    listen(element, {}, on);
    prepareToGrow(element, description, document);
    place(element, childrenOf(element, description), document, svg, wanted);
    // After the children: the choice of a select is among them.
    setValue(element, {}, attrs);
    if (attrs.autofocus) {
        wanted.push(element);
    }
    described.set(element, description);
    return element;
}

/** Makes the children of a parent be the described ones. Those with a key are found by it, the others by their order. */
function place(parent, children, document, svg, wanted) {
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
        const node = old ? patch(old, description, document, svg, wanted) : make(description, document, svg, wanted);
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
        // Only forwards and not far: whoever wants elements to survive a change of order gives them keys.
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
    // An input that becomes one of another type must not take over what was typed.
    return before.tag === description.tag && before.attrs.type === description.attrs.type;
}

function patch(node, description, document, inSvg, wanted) {
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
    place(node, childrenOf(node, description), document, inSvg || description.tag === "svg", wanted);
    setValue(node, before.attrs, description.attrs);
    if (description.attrs.autofocus && !before.attrs.autofocus) {
        wanted.push(node);
    }
    return node;
}

/** What is written as attributes: judged names, texts for values, and what a link to elsewhere must have. */
function attributesOf(attrs, document) {
    const found = {};
    for (const [name, value] of Object.entries(attrs)) {
        if (!isAllowedName(name)) {
            throw new Error(`not an attribute for this page: ${name}`);
        }
        if (name === "value" || name === "checked" || name === "selected" || name === "autofocus") {
            continue;
        }
        if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) {
            continue;
        }
        if (typeof value === "function" || typeof value === "object") {
            throw new Error(`the attribute ${name} must be a text`);
        }
        if (name === "href") {
            Object.assign(found, linkAttributes(value, document.baseURI));
        } else {
            // `aria-expanded="false"` says something, and an empty one nothing; elsewhere being there is what counts.
            found[name] = value === true && !name.startsWith("aria-") ? "" : String(value);
        }
    }
    return found;
}

/** Values are properties, and touched only when the description changes: in between they belong to whoever types. */
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

function prepareToGrow(element, description, document) {
    if (!description.later) {
        return;
    }
    if (description.tag !== "details") {
        element.addEventListener("click", () => growInPlace(element, document));
        return;
    }
    if (description.attrs.open) {
        markGrown(element, OWN);
    }
    element.addEventListener("toggle", () => {
        const now = described.get(element);
        if (element.open && now.later && !grown.get(element)?.has(OWN)) {
            markGrown(element, OWN);
            place(element, childrenOf(element, now), document, false, []);
        }
    });
}

function markGrown(element, key) {
    const keys = grown.get(element) ?? new Set();
    grown.set(element, keys.add(key));
}

function childrenOf(element, description) {
    if (description.tag === "details" && description.later && grown.get(element)?.has(OWN)) {
        return [...description.children, ...flat([description.later()])];
    }
    return description.children;
}

/** What stands in a parent now: parts that were asked for are in the place of their buttons. */
function expanded(parent, children) {
    const keys = grown.get(parent);
    if (!keys) {
        return children;
    }
    return children.flatMap((child) => {
        const asked = child.later && child.tag !== "details" && keys.has(child.key);
        return asked ? expanded(parent, flat([child.later()])) : [child];
    });
}

/** Puts what a button stood for into its place, and the focus on the first of it: the button is gone. */
function growInPlace(element, document) {
    const parent = element.parentNode;
    const description = described.get(element);
    if (!parent || !description.later) {
        return;
    }
    markGrown(parent, description.key);
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
