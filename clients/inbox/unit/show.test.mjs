//! Texts, trees, tables, times and digests.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { artifact, kindOf } from "../../../crates/holdpoint/src/inbox/page/show/artifact.js";
import { shortText, visible, visibleText } from "../../../crates/holdpoint/src/inbox/page/show/characters.js";
import { canonical, compareDigest, digest, digestOf, shortDigest } from "../../../crates/holdpoint/src/inbox/page/show/digest.js";
import { jsonTree } from "../../../crates/holdpoint/src/inbox/page/show/json_tree.js";
import { columnsOf, table } from "../../../crates/holdpoint/src/inbox/page/show/table.js";
import { text } from "../../../crates/holdpoint/src/inbox/page/show/text.js";
import { absolute, countdown, deadline, duration, relative, time } from "../../../crates/holdpoint/src/inbox/page/show/time.js";
import { diff } from "../../../crates/holdpoint/src/inbox/page/show/diff.js";
import { assertInert, find, opened, size, words } from "./descriptions.mjs";
import { PAYLOADS } from "./payloads.mjs";

const nested = (levels) => {
    let value = "deep";
    for (let level = 0; level < levels; level += 1) {
        value = level % 2 ? [value] : { inside: value };
    }
    return value;
};

for (const payload of PAYLOADS) {
    test(`a payload stays text in every form of content: ${JSON.stringify(payload)}`, () => {
        const record = JSON.parse(JSON.stringify({ text: payload, list: [payload, { a: payload }], rows: [{ a: payload }, { b: payload }] }));
        Object.defineProperty(record, payload, { value: { [payload]: payload }, enumerable: true });
        const shown = [
            ...["", "text/markdown", "application/json", "text/html", "text/patch", payload].flatMap((type) => [artifact(payload, type), artifact(record, type), artifact([record], type)]),
            artifact([{ [payload]: payload, other: `${payload}\n` }]),
            jsonTree(record),
            diff(payload, `${payload} changed\n${payload}`),
            diff(`a ${payload}`, `b ${payload}`, { layout: "sides" }),
            diff(record, { text: `x${payload}`, [`${payload}2`]: payload, list: [payload, payload] }),
            digest(payload),
        ];
        shown.forEach(assertInert);
        const plain = visibleText(payload);
        assert.ok(words(artifact(payload)).includes(plain));
        assert.ok(words(opened(artifact(payload, "text/markdown"))).includes(plain), "the source shows the exact text");
    });
}

test("characters that reorder or hide text are made visible", () => {
    assert.equal(visibleText("a\u202eb\u200b\u200bc"), "a⟦U+202E⟧b⟦U+200B ×2⟧c");
    assert.equal(visibleText("\u{e0041}\u0000\ud800x\r"), "⟦U+E0041⟧⟦U+0000⟧⟦U+D800⟧x⟦U+000D⟧");
    assert.equal(visible("a\u2066b")[1].attrs.title, "Invisible character: U+2066");
});

test("line endings, tabs, right-to-left words and emoji are not changed", () => {
    for (const usual of ["a\r\nb\tc", "שלום עולם", "مرحبا", "👩‍👩‍👧", "می‌خواهم", "é ü 漢字"]) {
        assert.deepEqual(visible(usual), [usual]);
    }
});

test("joiners between Latin letters are made visible", () => {
    assert.equal(visibleText("pass\u200dword \u200c"), "pass⟦U+200D⟧word ⟦U+200C⟧");
});

test("labels have one line, and surrogate pairs are not split", () => {
    assert.equal(shortText("a\n  b", 10), "a b");
    assert.equal(shortText("😀".repeat(50), 4), "😀…");
    assert.equal(shortText("x".repeat(1_000_000), 5), "xxxx…");
});

test("a megabyte of text is shown in portions, without losses", () => {
    const value = "0123456789😀".repeat(90_000);
    const description = text(value);
    assert.ok(words(description).length < 10_000);
    assert.equal(words(opened(description, 20)).replaceAll(/Show more \(.*? left\)/g, ""), value);
});

test("a tree shows names, and quotes strings but not numbers", () => {
    const shown = words(jsonTree({ a: 1, b: "1", c: null, d: [true, {}], "": [] }));
    assert.equal(shown, "a: 1b: \"1\"c: nulld: [ 2 items ]0: true1: { }\"\": [ ]");
});

test("an inexact number is marked", () => {
    const tree = jsonTree([12345678901234567890, 9007199254740991]);
    assert.deepEqual(find(tree, "span", "json-rounded").map(words), ["≈ 12345678901234567000"]);
});

test("a tree has details elements, and describes closed parts when they are opened", () => {
    const tree = jsonTree({ a: { b: { c: { d: { e: 1 } } } } });
    const parts = find(tree, "details");
    assert.deepEqual(parts.map(({ attrs }) => attrs.open), [true, true, undefined]);
    assert.match(words(opened(tree)), /e: 1/);
});

test("the initial description of large and deep values is bounded", () => {
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`k${index}`, [index, { index }]]));
    const cases = [nested(1000), wide, [wide, wide], Array.from({ length: 10_000 }, (_, index) => index), { a: "x".repeat(1_000_000) }];
    for (const value of cases) {
        for (const description of [jsonTree(value), artifact(value), artifact({ value })]) {
            assert.ok(size(description) < 5_000, `${size(description)} parts`);
        }
    }
});

test("a thousand levels can be opened one after the other", () => {
    let [part] = find(jsonTree(nested(1000)), "details").filter(({ later }) => later);
    let levels = 0;
    while (part) {
        levels += 1;
        [part] = find({ tag: "div", attrs: {}, children: part.later() }, "details");
    }
    assert.ok(levels > 990);
});

test("only a list of flat objects is a table", () => {
    assert.deepEqual(columnsOf([{ a: 1 }, { b: null, a: "x" }]), ["a", "b"]);
    for (const other of [[], [1], [{ a: [] }], [[1]], [null], {}, "x", [{}], [Object.fromEntries(Array.from({ length: 21 }, (_, i) => [i, i]))]]) {
        assert.equal(columnsOf(other), null);
    }
});

test("a table has a caption and headers with a scope, and distinguishes absent from null and strings from numbers", () => {
    const shown = table([{ a: 1, b: "x" }, { a: "1", b: null }, { a: " " }]);
    assert.equal(words(find(shown, "caption")[0]), "3 rows, 2 columns");
    assert.deepEqual(find(shown, "th").map((th) => [th.attrs.scope, words(th)]), [["col", "Row"], ["col", "a"], ["col", "b"], ["row", "1"], ["row", "2"], ["row", "3"]]);
    assert.deepEqual(find(shown, "td").map(words), ["1", "x", "\"1\"", "null", "\" \"", "—"]);
});

test("ten thousand rows are shown in portions", () => {
    const shown = table(Array.from({ length: 10_000 }, (_, index) => ({ index })));
    assert.equal(find(shown, "tr").length, 52);
    assert.match(words(shown), /Show 200 more \(9,950 left\)/);
});

test("the artifact type determines the form of a text", () => {
    for (const type of ["text/markdown", "Text/Markdown; charset=utf-8", "markdown", "md", "report.md", "text/x-markdown"]) {
        assert.equal(kindOf(type), "markdown", type);
    }
    for (const type of ["", "text/plain", "workflow.node", "cmd", null, undefined, 7]) {
        assert.equal(kindOf(type), "any", String(type));
    }
    assert.equal(kindOf("application/vnd.x+json"), "json");
    assert.equal(find(artifact("# a", "text/markdown"), "h3").length, 1);
    assert.equal(find(artifact("# a", "text/plain"), "h3").length, 0);
    assert.equal(find(artifact("{\"a\": [1]}", "application/json"), "dl").length, 1);
    assert.equal(words(artifact("{broken", "application/json")), "{broken");
});

test("an object is a list of named members, with its JSON below", () => {
    const shown = artifact({ draft: "# Hi\n\nyou", amount: 12, rows: [{ a: 1 }], more: { b: [] } }, "text/markdown");
    assert.deepEqual(find(shown, "dt").map(words), ["draft", "amount", "rows", "more"]);
    assert.deepEqual([find(shown, "h3").length, find(shown, "table").length, find(shown, "div", "json-tree").length], [1, 1, 1]);
    assert.match(words(shown), /Show it as JSON$/);
});

test("empty and missing artifacts have a text", () => {
    assert.match(words(artifact(undefined)), /nothing/);
    assert.match(words(artifact("")), /empty text/);
    assert.equal(words(artifact(null)), "null");
    assert.equal(words(artifact(0)), "0");
});

const NOW = Date.parse("2026-05-01T12:00:00Z");
const at = (seconds) => new Date(NOW + seconds * 1000).toISOString();

test("instants are shown relative to now", () => {
    const shown = [-3, 5, -60, 90, -7200, 86400, -86400 * 9, 86400 * 400].map((seconds) => relative(at(seconds), NOW));
    assert.deepEqual(shown, ["just now", "just now", "1 minute ago", "in 1 minute", "2 hours ago", "tomorrow", "last week", "next year"]);
    assert.equal(relative("nonsense", NOW), "unknown time");
});

test("an instant has its exact time as the title", () => {
    const shown = time(at(-60), NOW, { timeZone: "Europe/Berlin" });
    assert.equal(shown.attrs.datetime, "2026-05-01T11:59:00.000Z");
    assert.match(shown.attrs.title, /May 1, 2026, 1:59:00.PM GMT\+2/);
    assert.match(absolute(at(0), { timeZone: "UTC" }), /UTC$/);
});

test("durations are rounded down", () => {
    const shown = [0, 999, 59_999, 60_000, 3_599_999, 3_660_000, 90_000_000].map(duration);
    assert.deepEqual(shown, ["0 s", "0 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 01 min", "1 d 1 h"]);
});

test("a countdown has its urgency and the time of its next change", () => {
    const shown = [200_000, 7_300, 3_000, 299, 0, -61].map((seconds) => countdown(at(seconds), NOW));
    assert.deepEqual(shown.map(({ level }) => level), ["calm", "calm", "soon", "urgent", "over", "over"]);
    assert.equal(shown[1].text, "due in 2 h 01 min");
    assert.equal(shown[5].text, "overdue by 1 min 01 s");
    assert.deepEqual(countdown(undefined, NOW), { text: "no deadline", level: "none", changesInMs: null });
    for (const { text: before, changesInMs } of [countdown(at(7_300), NOW)]) {
        assert.equal(countdown(at(7_300), NOW + changesInMs - 2).text, before);
        assert.notEqual(countdown(at(7_300), NOW + changesInMs).text, before);
    }
    assert.equal(deadline(at(10), NOW).attrs.class, "deadline deadline-urgent");
});

test("the canonical form sorts members and writes numbers as the RFC does", () => {
    const value = { "€": 1, b: [1e21, 0.1, -0, 1e-7], a: { "\n": "\u2028é" } };
    assert.equal(canonical(value), "{\"a\":{\"\\n\":\"\u2028é\"},\"b\":[1e+21,0.1,0,1e-7],\"€\":1}");
});

test("a digest is computed and compared", async () => {
    const value = { b: 1, a: "x" };
    const expected = `sha256:${createHash("sha256").update("{\"a\":\"x\",\"b\":1}").digest("hex")}`;
    assert.equal(await digestOf(value), expected);
    assert.equal(await compareDigest(value, expected), "same");
    assert.equal(await compareDigest({ ...value, a: "y" }, expected), "different");
    assert.equal(await compareDigest(value, undefined), "unknown");
    assert.equal(await digestOf(value, null), null);
    assert.match(shortDigest(expected), /^sha256:[0-9a-f]{8}…[0-9a-f]{8}$/);
    assert.equal(find(digest(expected, "different"), "p", "digest-different")[0].attrs.role, "alert");
});

test("a patch is marked line by line, and its text does not change", () => {
    const value = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same";
    const shown = artifact(value, "text/x.patch");
    const kinds = find(shown, "span").map(({ attrs }) => attrs.class);
    assert.deepEqual(kinds, ["patch-head", "patch-head", "patch-place", "patch-removed", "patch-added", "patch-same"]);
    assert.equal(words(shown), value);
    assert.ok(size(artifact("+x\n".repeat(300_000), "text/x.patch")) < 2_000);
});

test("the direction of a text does not depend on the surrounding text", () => {
    for (const shown of [artifact({ a: "\u05d0", b: 1 }), diff("\u05d0", "b"), artifact("\u05d0", "text/markdown")]) {
        assert.equal(shown.attrs.dir, undefined);
        assert.ok(find(shown, "dl").concat(find(shown, "table")).every(({ attrs }) => attrs.dir === undefined));
    }
});
