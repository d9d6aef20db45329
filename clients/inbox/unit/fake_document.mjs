//! A fake document with the part of the DOM that the page uses. It cannot parse markup.

class FakeNode {
    constructor(document, nodeType) {
        this.ownerDocument = document;
        this.nodeType = nodeType;
        this.childNodes = [];
        this.parentNode = null;
    }

    get firstChild() {
        return this.childNodes[0] ?? null;
    }

    get nextSibling() {
        const siblings = this.parentNode?.childNodes ?? [];
        return siblings[siblings.indexOf(this) + 1] ?? null;
    }

    insertBefore(node, reference) {
        node.parentNode?.removeChild(node);
        const at = reference ? this.childNodes.indexOf(reference) : this.childNodes.length;
        this.childNodes.splice(at, 0, node);
        node.parentNode = this;
        this.ownerDocument.insertions += 1;
        return node;
    }

    removeChild(node) {
        this.childNodes.splice(this.childNodes.indexOf(node), 1);
        node.parentNode = null;
        if (node.contains(this.ownerDocument.activeElement)) {
            this.ownerDocument.activeElement = this.ownerDocument.body;
        }
        return node;
    }

    contains(other) {
        return other === this || this.childNodes.some((child) => child.contains(other));
    }

    get textContent() {
        return this.nodeType === 3 ? this.nodeValue : this.childNodes.map((child) => child.textContent).join("");
    }
}

class FakeElement extends FakeNode {
    constructor(document, namespaceURI, localName) {
        super(document, 1);
        this.namespaceURI = namespaceURI;
        this.localName = localName;
        this.attributes = new Map();
        this.listeners = {};
        this.value = "";
        this.checked = false;
        this.selected = false;
    }

    get open() {
        return this.attributes.has("open");
    }

    setAttribute(name, value) {
        if (typeof value !== "string") {
            throw new Error(`${name} is not a text`);
        }
        this.attributes.set(name, value);
    }

    getAttribute(name) {
        return this.attributes.get(name) ?? null;
    }

    hasAttribute(name) {
        return this.attributes.has(name);
    }

    removeAttribute(name) {
        this.attributes.delete(name);
    }

    addEventListener(name, listener) {
        (this.listeners[name] ??= []).push(listener);
    }

    /** Calls the listeners of this element and of its ancestors, like a bubbling event. */
    fire(name, event = {}) {
        for (let at = this; at; at = at.parentNode) {
            for (const listener of at.listeners?.[name] ?? []) {
                listener({ target: this, ...event });
            }
        }
    }

    focus() {
        this.ownerDocument.activeElement = this;
    }

    /** Returns all descendants with this name. */
    all(localName) {
        const own = this.childNodes.filter((child) => child.nodeType === 1);
        return own.flatMap((child) => [...(child.localName === localName ? [child] : []), ...child.all(localName)]);
    }

    openDetails() {
        this.setAttribute("open", "");
        for (const listener of this.listeners.toggle ?? []) {
            listener({ target: this });
        }
    }
}

export function fakeDocument(baseURI = "https://holdpoint.example/inbox") {
    const html = "http://www.w3.org/1999/xhtml";
    const document = { baseURI, insertions: 0 };
    document.createElement = (name) => new FakeElement(document, html, name);
    document.createElementNS = (namespace, name) => new FakeElement(document, namespace, name);
    document.createTextNode = (value) => {
        const node = new FakeNode(document, 3);
        node.nodeValue = value;
        return node;
    };
    document.body = document.createElement("body");
    document.activeElement = document.body;
    return document;
}

export function container(document = fakeDocument()) {
    const element = document.createElement("main");
    document.body.insertBefore(element, null);
    return element;
}
