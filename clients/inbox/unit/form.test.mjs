//! Forms from JSON Schema: fields, values and errors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { render, update } from "../../../crates/holdpoint/src/inbox/page/dom.js";
import { serverErrors } from "../../../crates/holdpoint/src/inbox/page/form/errors.js";
import { readable } from "../../../crates/holdpoint/src/inbox/page/form/labels.js";
import { form } from "../../../crates/holdpoint/src/inbox/page/form/schema.js";
import { visibleText } from "../../../crates/holdpoint/src/inbox/page/show/characters.js";
import { assertInert, costMs, elements, find, size, words } from "./descriptions.mjs";
import { container, fakeDocument } from "./fake_document.mjs";
import { PAYLOADS } from "./payloads.mjs";

const object = (properties, required = [], more = {}) => ({ type: "object", properties, required, ...more });
const text = { type: "string" };

/** Renders a form, and returns functions that use it like a user. */
function filling(schema, options = {}) {
    const main = container();
    let errors = {};
    const draw = () => update(main, made.describe({ errors }));
    const made = form(schema, { ...options, change: ({ isShape }) => isShape && draw() });
    draw();
    const byId = (id) => ["input", "textarea", "select", "button", "fieldset", "div"].flatMap((tag) => main.all(tag)).find((element) => element.getAttribute("id") === id);
    const at = (pointer) => byId(made.idOf(pointer));
    return {
        main,
        at,
        type(pointer, value) {
            const element = at(pointer);
            element.value = value;
            element.fire("input");
            element.fire("change");
        },
        pick(pointer, label) {
            const option = main.all("div").find((div) => div.getAttribute("class") === "option" && div.textContent === label && div.all("input")[0].getAttribute("name") === made.idOf(pointer));
            const [input] = option.all("input");
            input.checked = !input.checked;
            input.fire("change");
        },
        press(label) {
            main.all("button").find((button) => (button.getAttribute("aria-label") ?? button.textContent) === label).fire("click");
        },
        check() {
            ({ errors } = made.read());
            draw();
        },
        read: () => made.read(),
        isTouched: () => made.isTouched(),
        focused: () => main.ownerDocument.activeElement,
    };
}

const ROUND_TRIPS = [
    [text, "a"], [text, ""], [text, "a\r\nb"], [text, " x "], [{ ...text, format: "date" }, "2026-05-01"], [{ ...text, format: "date" }, "someday"],
    [{ ...text, format: "date-time" }, "2026-05-01T12:00:00.123456+02:00"], [{ ...text, format: "date-time" }, "later"],
    [{ type: "number" }, 0], [{ type: "number" }, -1.5e-7], [{ type: "integer" }, 3.5], [{ type: "number" }, "3"],
    [{ type: "boolean" }, false], [{ type: "boolean" }, "yes"], [{ enum: [1, "1", null, { a: 1 }] }, { a: 1 }], [{ enum: ["a"] }, "z"], [{ const: 7 }, 7],
    [{ oneOf: [{ const: "a", title: "A" }, { const: "b" }] }, "b"], [{ type: ["string", "null"] }, null], [{ anyOf: [{ type: "integer" }, { type: "null" }] }, null],
    [{ type: "array", items: text }, []], [{ type: "array", items: text }, ["b", "a"]], [{ type: "array", items: text }, [1, null, "a"]], [{ type: "array" }, [1]],
    [{ type: "array", items: { enum: ["a", "b", "c"] }, uniqueItems: true }, ["c", "a"]], [{ type: "array", items: text }, Array.from({ length: 500 }, String)],
    [object({ a: text, b: { type: "number" } }, ["a"]), { a: "" }], [object({ a: text }), {}], [object({ a: text }), { z: [1], a: "x", y: null }],
    [object({ a: { ...text, default: "d" } }), {}], [object({ a: object({ b: text }) }), { a: {} }], [object({ a: object({ b: text }) }), {}], [object({ a: text }), []],
    [object({ a: { anyOf: [object({ b: text }), { type: "null" }] } }), { a: null }], [{}, { any: ["thing", 1e21] }], [true, 1], [false, null], [{ anyOf: [text, { type: "number" }] }, 5],
    [{ $ref: "#/$defs/a", $defs: { a: object({ b: { $ref: "#/$defs/a" } }) } }, { b: { b: {} } }], [{ $ref: "https://x.example/" }, "x"], [{ $ref: "#" }, 1],
    [object({ __proto__x: text, constructor: text }), JSON.parse("{\"__proto__\": 1, \"constructor\": \"x\"}")],
    [{ type: "object", patternProperties: { "^x": text } }, { x1: "a" }], [{ if: {}, then: {} }, 1], [object({ a: text }, ["undescribed"]), { undescribed: 1 }],
];
for (const [schema, value] of ROUND_TRIPS) {
    test(`the untouched value ${JSON.stringify(value).slice(0, 60)} is returned by ${JSON.stringify(schema).slice(0, 80)}`, () => {
        const made = form(schema, { value });
        assert.deepEqual(made.read().value, value);
        assert.equal(JSON.stringify(made.read().value), JSON.stringify(value), "the members keep their order");
        assertInert(made.describe({ errors: made.read().errors }));
        render(made.describe(), fakeDocument());
        assert.deepEqual(form(object({ inside: schema })).read().value, {});
        assert.deepEqual(form({ ...object({ inside: { default: value, ...(typeof schema === "object" ? schema : {}) } }), $defs: schema.$defs }).read().value, { inside: value });
    });
}

test("optional members without a value stay absent", () => {
    const schema = object({ a: text, b: { type: "number" }, c: { type: "boolean" }, d: { enum: ["x", "y"] }, e: { type: "array", items: text }, f: object({ g: { ...text, default: "z" } }), h: {}, i: { type: "array", items: { enum: [1, 2] }, uniqueItems: true }, j: { type: ["string", "null"] } });
    assert.deepEqual(form(schema).read(), { value: {}, errors: {} });
});

test("defaults are initial values and keep their types", () => {
    const schema = object({ a: { ...text, default: "x" }, b: { type: "number", default: 2.5 }, c: { type: "boolean", default: false }, d: { enum: [1, 2], default: 2 }, e: { type: "array", items: text, default: ["y"] }, f: object({ g: { default: 1 } }, [], { default: { g: 3 } }) });
    assert.deepEqual(form(schema).read(), { value: { a: "x", b: 2.5, c: false, d: 2, e: ["y"], f: { g: 3 } }, errors: {} });
});

test("missing required members are errors, and a single choice is preselected", () => {
    const schema = object({ a: text, b: { type: "number" }, c: { type: "boolean" }, d: { const: "fixed" }, e: { type: "array", items: text }, f: object({ g: text }, ["g"]), h: {} }, ["a", "b", "c", "d", "e", "f", "h"]);
    const { value, errors } = form(schema).read();
    assert.deepEqual(value, { d: "fixed", e: [], f: {} });
    assert.deepEqual(Object.keys(errors), ["/a", "/b", "/c", "/f/g", "/h"]);
});

test("typed values have the type of their field", () => {
    const page = filling(object({ a: text, b: { type: "number" }, c: { type: "integer" }, d: {}, e: { type: "boolean" } }));
    page.type("/a", "12");
    page.type("/b", " -2.5e3 ");
    page.type("/c", "7");
    page.type("/d", "[1, \"x\"]");
    page.pick("/e", "No");
    assert.deepEqual(page.read(), { value: { a: "12", b: -2500, c: 7, d: [1, "x"], e: false }, errors: {} });
    assert.equal(page.isTouched(), true);
});

test("an emptied field is absent, or null if the schema allows it", () => {
    const nullable = { type: ["string", "null"] };
    const page = filling(object({ a: text, b: nullable, c: { type: "number" }, d: text }, ["d"]), { value: { a: "x", b: "y", c: 1, d: "z" } });
    ["/a", "/b", "/c", "/d"].forEach((pointer) => page.type(pointer, ""));
    assert.deepEqual(page.read().value, { b: null });
    assert.deepEqual(Object.keys(page.read().errors), ["/d"]);
});

const JUDGED = [
    [{ type: "number" }, "abc", /number/], [{ type: "number" }, "1,5", /number/], [{ type: "number" }, "0x10", /number/], [{ type: "integer" }, "1.5", /whole/],
    [{ type: "number", minimum: 2 }, "1", /at least 2/], [{ type: "number", maximum: 2 }, "3", /at most 2/], [{ type: "number", exclusiveMinimum: 2 }, "2", /more than 2/],
    [{ type: "number", exclusiveMaximum: 2 }, "2", /less than 2/], [{ type: "number", multipleOf: 0.1 }, "0.35", /multiple of 0.1/], [{ type: "integer" }, "9007199254740993", /exactly/], [{ type: "number" }, "1e999", /number/],
    [{ ...text, minLength: 3 }, "😀😀", /at least 3/], [{ ...text, maxLength: 2 }, "abc", /at most 2/], [{ ...text, pattern: "^[a-z]+$" }, "A", /form/],
    [{ ...text, format: "email" }, "no-address", /e-mail/], [{ ...text, format: "uri" }, "/x", /complete URL/], [{ ...text, format: "date" }, "2026-02-30", /date/],
    [{}, "{\"a\": }", /Line 1, column 7: a value/], [{}, "[1,\n 2", /Line 2, column 3: the JSON ends/], [{}, "{\"a\": 1, \"a\": 2}", /duplicate/], [{}, "12345678901234567890", /exactly/],
];
for (const [schema, typed, message] of JUDGED) {
    test(`${JSON.stringify(typed)} is invalid for ${JSON.stringify(schema)}`, () => {
        const page = filling(object({ a: schema }));
        page.type("/a", typed);
        assert.match(page.read().errors["/a"], message);
    });
}

for (const [schema, typed] of [[{ type: "number", multipleOf: 0.1 }, "0.3"], [{ ...text, maxLength: 2 }, "😀😀"], [{ ...text, pattern: "^(a+)+$" }, `${"a".repeat(60)}!`], [{ ...text, pattern: "(" }, "x"], [{ ...text, format: "uri" }, "urn:x:y"], [{ ...text, format: "unknown" }, "x"], [{ type: "number", minimum: 0 }, "0"]]) {
    test(`${JSON.stringify(typed)} is not checked against ${JSON.stringify(schema)} in the page`, () => {
        const page = filling(object({ a: schema }));
        page.type("/a", typed);
        assert.ok(costMs(() => assert.deepEqual(page.read().errors, {})) < 1_000);
    });
}

test("a typed local time becomes an instant", () => {
    const page = filling(object({ a: { ...text, format: "date-time" } }), { value: { a: "2026-05-01T12:00:00Z" } });
    assert.equal(page.at("/a").getAttribute("type"), "datetime-local");
    assert.equal(new Date(page.at("/a").value).toISOString(), "2026-05-01T12:00:00.000Z");
    page.type("/a", "2026-05-02T08:30");
    assert.equal(page.read().value.a, new Date("2026-05-02T08:30").toISOString().replace(".000Z", "Z"));
    assert.deepEqual(page.read().errors, {});
});

test("the schema of a text determines the type of its field", () => {
    const types = [[{}, "text"], [{ format: "date" }, "date"], [{ format: "email" }, "email"], [{ format: "uri" }, "url"], [{ maxLength: 1000 }, null], [{ format: "markdown" }, null], [{ default: "a\nb" }, null]];
    for (const [more, type] of types) {
        const page = filling(object({ a: { ...text, ...more } }));
        assert.equal(page.at("/a").localName, type === null ? "textarea" : "input");
        assert.equal(page.at("/a").getAttribute("type"), type);
    }
});

test("few choices are radio buttons, many are a select, and values keep their types", () => {
    const few = filling(object({ a: { enum: [1, "1", true] } }, ["a"]));
    few.pick("/a", "\"1\"");
    assert.deepEqual(few.read(), { value: { a: "1" }, errors: {} });
    const many = filling(object({ a: { enum: Array.from({ length: 20 }, (_, index) => index * 10) } }));
    assert.equal(many.at("/a").localName, "select");
    assert.equal(many.at("/a").value, "-1");
    many.type("/a", "3");
    assert.deepEqual(many.read().value, { a: 30 });
});

test("constants with titles are choices", () => {
    const page = filling(object({ a: { oneOf: [{ const: "eu", title: "Europe" }, { const: "us", title: "America" }] } }, ["a"]));
    assert.match(page.main.textContent, /Europe.*America/);
    page.pick("/a", "America");
    assert.deepEqual(page.read().value, { a: "us" });
});

test("an array of unique choices has check boxes", () => {
    const page = filling(object({ a: { type: "array", uniqueItems: true, minItems: 1, items: { enum: ["x", "y", "z"] } } }, ["a"]));
    assert.match(page.read().errors["/a"], /at least 1/);
    page.pick("/a", "z");
    page.pick("/a", "x");
    assert.deepEqual(page.read(), { value: { a: ["x", "z"] }, errors: {} });
    page.pick("/a", "z");
    assert.deepEqual(page.read().value, { a: ["x"] });
});

test("items can be added, moved and removed, and the focus follows", () => {
    const page = filling(object({ a: { type: "array", items: object({ b: text }, ["b"]), maxItems: 3 } }));
    page.press("Add A");
    assert.deepEqual(page.read().value, { a: [] });
    page.press("Add an item");
    assert.equal(page.focused(), page.at("/a/0"));
    page.type("/a/0/b", "one");
    page.press("Add an item");
    assert.deepEqual(Object.keys(page.read().errors), ["/a/1/b"]);
    page.type("/a/1/b", "two");
    page.press("Move Item 2 up");
    assert.deepEqual(page.read(), { value: { a: [{ b: "two" }, { b: "one" }] }, errors: {} });
    assert.equal(page.at("/a/0/b").value, "two");
    page.press("Remove Item 1");
    assert.equal(page.focused().getAttribute("aria-label"), "Remove Item 1");
    assert.deepEqual(page.read().value, { a: [{ b: "one" }] });
    page.press("Remove Item 1");
    assert.equal(page.focused().textContent, "Add an item");
    page.press("Remove A");
    assert.deepEqual(page.read().value, {});
    assert.equal(page.focused().textContent, "Add A");
});

test("an optional object is added with its defaults", () => {
    const part = object({ b: { ...text, default: "d" }, c: text }, ["c"]);
    const page = filling(object({ a: part, n: { anyOf: [part, { type: "null" }], default: null } }));
    assert.deepEqual(page.read(), { value: { n: null }, errors: {} });
    page.press("Add A");
    page.press("Add N");
    assert.deepEqual(page.read().value, { a: { b: "d" }, n: { b: "d" } });
    assert.deepEqual(Object.keys(page.read().errors), ["/a/c", "/n/c"]);
    page.press("Remove A");
    page.press("Remove N");
    assert.deepEqual(page.read(), { value: { n: null }, errors: {} });
});

test("labels, legends and descriptions are connected to their fields", () => {
    const description = form(object({ a: { ...text, title: "Title", description: "About it" }, b: object({ c: text }, [], { title: "Group" }) }, ["a", "b"])).describe();
    const [input] = find(description, "input");
    assert.equal(words(find(description, "label")[0]), "Title");
    assert.equal(find(description, "label")[0].attrs.for, input.attrs.id);
    const about = elements(description).find(({ attrs }) => attrs.id === input.attrs["aria-describedby"]);
    assert.match(words(about), /About it/);
    assert.equal(input.attrs["aria-required"], true);
    assert.equal(words(find(description, "legend")[0]), "Group");
    assert.ok(find(find(description, "fieldset")[0], "input").length === 1);
});

test("every control has one label, and every id is unique", () => {
    const schema = object({ a: text, b: { type: "number" }, c: { enum: [1, 2] }, d: { type: "array", items: text, default: ["x", "y"] }, e: {}, f: { type: "array", uniqueItems: true, items: { enum: [1, 2] } }, g: { enum: Array.from({ length: 9 }, (_, i) => i) } });
    const made = form(schema);
    const all = elements(made.describe({ errors: { "/a": "wrong", "/d/1": "wrong", "/f": "wrong" } }));
    const ids = all.map(({ attrs }) => attrs.id).filter(Boolean);
    assert.equal(new Set(ids).size, ids.length);
    for (const { tag, attrs } of all) {
        if (["input", "select", "textarea"].includes(tag)) {
            assert.equal(all.filter((other) => other.tag === "label" && other.attrs.for === attrs.id).length, 1);
        }
        String(attrs["aria-describedby"] ?? "").split(" ").filter(Boolean).forEach((id) => assert.ok(ids.includes(id), id));
    }
});

test("errors are shown at their fields and in a summary with links", () => {
    const page = filling(object({ a: text, b: text }, ["a"]));
    page.check();
    const input = page.at("/a");
    assert.equal(input.getAttribute("aria-invalid"), "true");
    const line = page.main.all("p").find((p) => p.getAttribute("id") === input.getAttribute("aria-describedby"));
    assert.equal(line.textContent, "Please fill this in.");
    assert.equal(page.focused().getAttribute("role"), "alert");
    page.main.ownerDocument.getElementById = () => input;
    page.press("A: Please fill this in.");
    assert.equal(page.focused(), input);
    page.type("/a", "x");
    page.check();
    assert.equal(page.at("/a").hasAttribute("aria-invalid"), false);
    assert.equal(page.at("/a"), input);
    assert.equal(input.value, "x");
});

test("errors of pointers without a field are shown at the enclosing field", () => {
    const description = form(object({ a: object({ b: text }) }, ["a"])).describe({ errors: { "/a/b/c/d": "deep", "/zzz": "unknown" } });
    assert.match(words(description), /B: deep/);
    assert.match(words(description), /unknown/);
});

test("errors of the server are assigned to their fields", () => {
    const body = (field, message) => ({ error: "validation_error", message: `${field}: ${message}`, details: { field } });
    assert.deepEqual(serverErrors(body("resumeValue/a/0", "is wrong")), { "/a/0": "is wrong" });
    assert.deepEqual(serverErrors(body("resumeValue", "\"name\" is a required property")), { "/name": "Please fill this in." });
    assert.deepEqual(serverErrors(body("resumeValue.answers.colour/x", "no"), "resumeValue.answers.colour"), { "/x": "no" });
    assert.deepEqual(serverErrors(body("resumeValue.items[2].id", "no")), { "/items/2/id": "no" });
    assert.deepEqual(serverErrors({ message: "nothing more" }), { "": "nothing more" });
});

test("member names become readable labels", () => {
    assert.deepEqual(["customer_email", "customerEmail", "URL", "a-b", "größe", "userID2", ""].map(readable), ["Customer email", "Customer email", "URL", "A b", "größe", "UserID2", "\"\""]);
});

test("labels by pointer override titles", () => {
    assert.match(words(form(object({ a: { ...text, title: "Title" } }), { names: { "/a": "Which colour?" } }).describe()), /^Which colour\?/);
});

test("a form with a scalar schema has one field", () => {
    const page = filling(text);
    page.check();
    assert.match(page.main.textContent, /Your answer/);
    page.type("", "x");
    assert.deepEqual(page.read(), { value: "x", errors: {} });
});

test("invalid JSON shows its position when the field is left", () => {
    const page = filling({});
    page.type("", "{\"a\": 1,}");
    assert.match(page.main.textContent, /Line 1, column 9: the name of a member/);
    page.type("", "{\"a\": 1}");
    assert.doesNotMatch(page.main.textContent, /Line/);
    assert.deepEqual(page.read(), { value: { a: 1 }, errors: {} });
});

for (const payload of PAYLOADS) {
    test(`a payload stays text in every part of a form: ${JSON.stringify(payload)}`, () => {
        const labels = { title: payload, description: payload, examples: [payload] };
        const schema = object({
            [payload]: { ...text, ...labels },
            a: { ...labels, enum: [payload, "b"] },
            b: { ...labels, oneOf: Array.from({ length: 9 }, (_, index) => ({ const: index, title: `${index}${payload}`, description: payload })) },
            c: { ...labels, type: "array", items: { ...text, ...labels }, default: [payload] },
            d: object({ [payload]: { ...text, pattern: payload, format: payload } }, [], labels),
            e: { default: { [payload]: payload } },
            f: { ...labels, type: "array", uniqueItems: true, items: { enum: [payload] } },
        }, ["d"]);
        const made = form(schema, { names: { "/e": payload }, id: "form" });
        const errors = { "": payload, "/a": payload, [`/${payload}`]: payload, "/c/0": payload, [payload]: payload };
        const description = made.describe({ errors });
        assertInert(description);
        render(description, fakeDocument());
        assert.ok(words(description).includes(visibleText(payload).replace(/\s+/g, " ").trim()));
        assert.deepEqual(made.read().value.e, { [payload]: payload });
    });
}

test("large and recursive schemas become JSON fields in bounded time", () => {
    const wide = object(Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`m${index}`, text])));
    const recursive = { $defs: { n: object({ a: { $ref: "#/$defs/n" }, b: { $ref: "#/$defs/n" } }, ["a", "b"]) }, $ref: "#/$defs/n" };
    const circle = { $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" };
    const deep = Array.from({ length: 1000 }).reduce((inner) => object({ inner }, ["inner"]), text);
    const cases = [[wide], [recursive], [circle], [deep], [text, "x".repeat(1_000_000)], [{}, Array.from({ length: 10_000 }, (_, index) => ({ index }))], [{ enum: Array.from({ length: 10_000 }, String) }]];
    for (const [schema, value] of cases) {
        assert.ok(costMs(() => assert.ok(size(form(schema, { value }).describe()) < 20_000)) < 3_000);
    }
});

test("a format with the name of an inherited property is ignored", () => {
    for (const format of ["constructor", "__proto__", "toString"]) {
        const page = filling(object({ a: { ...text, format } }));
        page.type("/a", "x");
        assert.deepEqual(page.read(), { value: { a: "x" }, errors: {} });
    }
});
