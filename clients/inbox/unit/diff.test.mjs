//! Differences: the shortest edit script between two lists, and its description.

import assert from "node:assert/strict";
import { test } from "node:test";
import { compare } from "../../../crates/holdpoint/src/inbox/page/show/compare.js";
import { diff } from "../../../crates/holdpoint/src/inbox/page/show/diff.js";
import { changes, place } from "../../../crates/holdpoint/src/inbox/page/show/diff_json.js";
import { costMs, find, opened, size, words } from "./descriptions.mjs";

/** Returns a pseudo-random generator with a fixed seed. */
function dice(seed) {
    let state = seed;
    return (sides) => {
        state = (state * 1103515245 + 12345) % 2147483648;
        return Math.floor((state / 2147483648) * sides);
    };
}

function commonLength(a, b) {
    const best = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
    for (let i = a.length - 1; i >= 0; i -= 1) {
        for (let j = b.length - 1; j >= 0; j -= 1) {
            best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
        }
    }
    return best[0][0];
}

test("the edit script converts one list to the other and is the shortest", () => {
    const roll = dice(7);
    for (let turn = 0; turn < 5000; turn += 1) {
        const [a, b] = [0, 1].map(() => Array.from({ length: roll(14) }, () => roll(4)));
        let [x, y, same] = [0, 0, 0];
        for (const { kind, before, after, length } of compare(a, b)) {
            assert.deepEqual([before, after], [x, y]);
            if (kind === "same") {
                assert.deepEqual(a.slice(x, x + length), b.slice(y, y + length));
                same += length;
            }
            x += kind === "added" ? 0 : length;
            y += kind === "removed" ? 0 : length;
        }
        assert.deepEqual([x, y, same], [a.length, b.length, commonLength(a, b)]);
    }
});

test("the comparison gives up on lists without common items", () => {
    const list = (name) => Array.from({ length: 50_000 }, (_, index) => `${name}${index}`);
    const [before, after] = [list("a"), list("b")];
    assert.ok(costMs(() => assert.equal(compare(before, after), null)) < 3_000);
});

const rows = (description) => find(description, "tr").slice(1).map((row) => words(row));

test("lines have numbers, signs and marked words", () => {
    const shown = diff("one\ntwo old words here\nthree", "one\ntwo new words here\nthree\nfour");
    assert.deepEqual(rows(shown), ["11one", "2−removed: two old words here", "2+added: two new words here", "33three", "4+added: four"]);
    assert.deepEqual([find(shown, "del").map(words), find(shown, "ins").map(words)], [["old"], ["new"]]);
    assert.match(words(shown), /^2 lines added, 1 removed/);
});

test("the layout sides puts changed lines next to each other", () => {
    const shown = diff("a b c\nx", "a B c\nx\ny", { layout: "sides" });
    assert.deepEqual(rows(shown), ["1−removed: a b c1+added: a B c", "2x2x", "3+added: y"]);
    assert.deepEqual(find(shown, "th").map(words).slice(1), ["Before", "Line after", "After"]);
});

test("unchanged lines are folded except for three lines around a change", () => {
    const before = Array.from({ length: 40 }, (_, index) => `line ${index}`);
    const after = before.with ? before.with(20, "other") : before.map((line, index) => (index === 20 ? "other" : line));
    const shown = diff(before.join("\n"), after.join("\n"));
    assert.equal(find(shown, "tr").length, 1 + 1 + 3 + 2 + 3 + 1);
    assert.match(words(shown), /Show 17 unchanged lines/);
    assert.match(words(opened(shown)), /line 0[^]*line 39/);
});

test("texts that are too different are shown one after the other, with a note", () => {
    const text = (name) => Array.from({ length: 5000 }, (_, index) => `${name} ${index * 7919}`).join("\n");
    const shown = diff(text("a"), text("b"));
    assert.match(words(shown), /too different to compare/);
    assert.ok(size(shown) < 10_000);
});

test("changed line endings and hidden characters are visible", () => {
    assert.match(words(diff("a\r\nb", "a\nb")), /removed: a⟦U\+000D⟧/);
    assert.match(words(diff("ab", "a\u202eb")), /a⟦U\+202E⟧b/);
    assert.doesNotMatch(words(diff("a\r\nb", "a\r\nc")), /U\+000D/);
});

test("equal values have no changes", () => {
    for (const value of ["a", "", null, 1, { a: [1, { b: 2 }] }]) {
        assert.match(words(diff(value, structuredClone(value))), /No changes/);
    }
});

test("changes of JSON have their path", () => {
    const before = { a: 1, gone: true, list: [1, 2, 3], deep: { "odd name": { x: "y" } } };
    const after = { a: 2, list: [1, 3, 4], deep: { "odd name": { x: "z" } }, fresh: null };
    const found = changes(before, after).map(({ kind, path }) => `${kind} ${place(path)}`);
    assert.deepEqual(found, ["changed a", "removed gone", "removed list[1]", "added list[2]", "changed deep[\"odd name\"].x", "added fresh"]);
    assert.equal(place([]), "the whole value");
});

test("objects in lists are paired with objects", () => {
    const found = changes([1, 2, { a: 1, b: 2 }], [1, { a: 1, b: 3 }]);
    assert.deepEqual(found.map(({ kind, path }) => [kind, place(path)]), [["removed", "[1]"], ["changed", "[1].b"]]);
});

test("a string and a number with the same digits differ", () => {
    assert.equal(words(diff(1, "1")), "0 changed".replace("0", "1") + ", 0 added, 0 removedchanged the whole value1\"1\"");
    assert.equal(changes({ a: null }, {}).length, 1);
    assert.equal(changes([], {}).length, 1);
});

test("members with names of inherited properties are compared", () => {
    const before = JSON.parse("{\"__proto__\": 1, \"constructor\": 2}");
    const after = JSON.parse("{\"__proto__\": 2}");
    assert.deepEqual(changes(before, after).map(({ kind, path }) => `${kind} ${place(path)}`), ["changed __proto__", "removed constructor"]);
});

test("large and deep values are compared in bounded time", () => {
    const many = (shift) => Array.from({ length: 10_000 }, (_, index) => ({ index: index + shift, text: `t${index}` }));
    const deep = (leaf) => Array.from({ length: 1000 }).reduce((value, _, level) => (level % 2 ? [value] : { value }), leaf);
    const cases = [[many(0), many(1)], [many(0), many(20_000)], [deep(1), deep(2)], ["x".repeat(1e6), "y".repeat(1e6)], ["x\n".repeat(2e5), "y\n".repeat(2e5)]];
    for (const [before, after] of cases) {
        let shown;
        assert.ok(costMs(() => { shown = diff(before, after); }) < 5_000);
        assert.ok(size(shown) < 20_000, `${size(shown)} parts`);
    }
});
