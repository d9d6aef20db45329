//! Elements from descriptions, and the allowlist.

import assert from "node:assert/strict";
import { test } from "node:test";
import { folded, h, more, render, update } from "../../../crates/holdpoint/src/inbox/page/dom.js";
import { container, fakeDocument } from "./fake_document.mjs";

test("an element has its name, attributes, children and text", () => {
    const made = render(h("p", { class: "a", hidden: true, title: null, "aria-label": "x" }, "one", ["two", null, false, 3]), fakeDocument());
    assert.equal(made.localName, "p");
    assert.deepEqual(Object.fromEntries(made.attributes), { class: "a", hidden: "", "aria-label": "x" });
    assert.equal(made.textContent, "onetwo3");
});

test("markup in a text stays text", () => {
    const made = render(h("p", {}, "<img src=x onerror=alert(1)>"), fakeDocument());
    assert.equal(made.childNodes.length, 1);
    assert.equal(made.childNodes[0].nodeType, 3);
});

for (const tag of ["script", "style", "iframe", "object", "embed", "img", "base", "meta", "link", "template", "foreignObject", "animate", "use", "SCRIPT"]) {
    test(`an element ${tag} cannot be created`, () => {
        assert.throws(() => render(h("div", {}, h(tag)), fakeDocument()), /tag .* is not allowed/);
    });
}

for (const name of ["onclick", "style", "src", "srcdoc", "formaction", "action", "rel", "target", "xlink:href", "srcset", "data-", "aria-x y", "ONCLICK", "ping"]) {
    test(`an attribute ${name} cannot be set`, () => {
        assert.throws(() => render(h("a", { [name]: "x" }), fakeDocument()), /attribute .* is not allowed/);
    });
}

test("a handler must be a function, and an attribute must not be a function", () => {
    assert.throws(() => render(h("a", { on: { click: "alert(1)" } }), fakeDocument()), /must be a function/);
    assert.throws(() => render(h("a", { title: () => 1 }), fakeDocument()), /must be a string/);
});

const REFUSED = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "java\nscript:alert(1)",
    "\u0001javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://x/y", "filesystem:x", "view-source:x", "http://[", "about:blank", "ftp://x"];
for (const href of REFUSED) {
    test(`a link to ${JSON.stringify(href)} has no address`, () => {
        assert.equal(render(h("a", { href }, "x"), fakeDocument()).hasAttribute("href"), false);
    });
}

test("links within the page have no target", () => {
    for (const href of ["#a", "/inbox", "./x", "?q=1", "https://holdpoint.example/x", "mailto:a@b.example"]) {
        assert.deepEqual(Object.fromEntries(render(h("a", { href }), fakeDocument()).attributes), { href });
    }
});

test("links to other origins open in a new tab without a referrer", () => {
    for (const href of ["https://other.example/", "//other.example/", "/\\other.example", "\\\\other.example", "http://holdpoint.example/", "https:other.example"]) {
        const made = render(h("a", { href }), fakeDocument("http://127.0.0.1:8484/inbox"));
        assert.equal(made.getAttribute("rel"), "noopener noreferrer nofollow", href);
        assert.equal(made.getAttribute("target"), "_blank");
    }
});

test("drawings are created in the SVG namespace", () => {
    const made = render(h("figure", {}, h("svg", { viewBox: "0 0 1 1" }, h("g", {}, h("title", {}, "x"))), h("p")), fakeDocument());
    const svg = "http://www.w3.org/2000/svg";
    assert.deepEqual([made.all("svg")[0], made.all("g")[0], made.all("title")[0]].map((node) => node.namespaceURI), [svg, svg, svg]);
    assert.notEqual(made.all("p")[0].namespaceURI, svg);
});

test("boolean ARIA attributes have a text, other boolean attributes are present or absent", () => {
    const made = render(h("button", { "aria-expanded": false, "aria-pressed": true, disabled: false }), fakeDocument());
    assert.deepEqual(Object.fromEntries(made.attributes), { "aria-expanded": "false", "aria-pressed": "true" });
});

test("an update keeps elements and typed text", () => {
    const main = container();
    update(main, h("p", {}, "1"), h("input", { type: "text", value: "" }));
    const [, input] = main.childNodes;
    input.value = "typed";
    input.focus();
    update(main, h("p", { class: "b" }, "2"), h("input", { type: "text", value: "" }));
    assert.equal(main.childNodes[1], input);
    assert.equal(input.value, "typed");
    assert.equal(main.ownerDocument.activeElement, input);
    assert.equal(main.childNodes[0].textContent, "2");
    update(main, h("p", {}, "2"), h("input", { type: "text", value: "ours" }));
    assert.equal(input.value, "ours");
    assert.equal(main.childNodes[0].hasAttribute("class"), false);
});

test("elements with keys are kept when their order changes", () => {
    const main = container();
    const list = (...keys) => update(main, keys.map((key) => h("input", { key, type: "text" })));
    list("a", "b", "c");
    const [a, b, c] = main.childNodes;
    b.focus();
    list("c", "b", "new", "a");
    assert.deepEqual([main.childNodes[0], main.childNodes[1], main.childNodes[3]], [c, b, a]);
    assert.equal(main.ownerDocument.activeElement, b);
    list("b");
    assert.deepEqual(main.childNodes, [b]);
});

test("elements without a description are replaced", () => {
    const main = container();
    main.insertBefore(main.ownerDocument.createElement("p"), null);
    update(main, h("p", {}, "ours"));
    assert.equal(main.childNodes.length, 1);
    assert.equal(main.textContent, "ours");
});

test("an update without changes moves no element", () => {
    const main = container();
    const view = () => [h("ul", {}, ["a", "b", "c"].map((key) => h("li", { key }, key))), "text", h("p")];
    update(main, view());
    const before = main.ownerDocument.insertions;
    update(main, view());
    assert.equal(main.ownerDocument.insertions, before);
});

test("only the newest handler is called", () => {
    const main = container();
    const calls = [];
    update(main, h("button", { on: { click: () => calls.push("old") } }));
    update(main, h("button", { on: { click: () => calls.push("new") } }));
    main.childNodes[0].fire("click");
    update(main, h("button", {}));
    main.childNodes[0].fire("click");
    assert.deepEqual(calls, ["new"]);
});

test("an input of another type is a new element", () => {
    const main = container();
    update(main, h("input", { type: "text", value: "a" }));
    const first = main.childNodes[0];
    update(main, h("input", { type: "checkbox", checked: true }));
    assert.notEqual(main.childNodes[0], first);
    assert.equal(main.childNodes[0].checked, true);
});

test("the value of a select is set after its options", () => {
    const made = render(h("select", { value: "b" }, h("option", { value: "a" }), h("option", { value: "b" })), fakeDocument());
    assert.equal(made.value, "b");
    assert.deepEqual(made.childNodes.map((node) => node.value), ["a", "b"]);
});

test("an element with autofocus is focused once", () => {
    const main = container();
    update(main, h("input", { key: "a", type: "text", autofocus: true }), h("button", { key: "b" }));
    const [input, button] = main.childNodes;
    assert.equal(main.ownerDocument.activeElement, input);
    button.focus();
    update(main, h("input", { key: "a", type: "text", autofocus: true }), h("button", { key: "b" }));
    assert.equal(main.ownerDocument.activeElement, button);
});

test("a deferred part replaces its button, stays after updates, and gets the focus", () => {
    const main = container();
    const part = (from) => [h("li", {}, String(from)), more("more", () => part(from + 1), `from ${from}`, (button) => h("li", {}, button))];
    const view = () => h("ul", {}, part(0));
    update(main, view());
    assert.equal(main.textContent, "0more");
    main.all("button")[0].fire("click");
    main.all("button")[0].fire("click");
    assert.equal(main.textContent, "012more");
    assert.equal(main.ownerDocument.activeElement.textContent, "2");
    update(main, view());
    assert.equal(main.textContent, "012more");
});

test("a folded part is described when it is opened, and stays", () => {
    const main = container();
    let asked = 0;
    const view = () => folded("look", () => { asked += 1; return [h("p", {}, "inside")]; });
    update(main, view());
    assert.equal(asked, 0);
    main.all("details")[0].openDetails();
    assert.equal(main.textContent, "lookinside");
    update(main, view());
    assert.equal(main.textContent, "lookinside");
    assert.equal(main.all("details")[0].open, true);
});

test("an update of half of many children keeps all of them", () => {
    const main = container();
    const rows = (tag) => Array.from({ length: 2000 }, (_, index) => h(index % 2 ? "p" : tag, {}, String(index)));
    update(main, rows("div"));
    update(main, rows("section"));
    assert.equal(main.childNodes.length, 2000);
});
