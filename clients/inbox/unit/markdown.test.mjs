//! Markdown: a few tags, headings below those of the page, no HTML.

import assert from "node:assert/strict";
import { test } from "node:test";
import { markdown } from "../../../crates/holdpoint/src/inbox/page/show/markdown.js";
import { assertInert, costMs, depth, elements, find, opened, size, words } from "./descriptions.mjs";

/** Returns short markup for comparisons: without attributes except addresses, and without the folded source. */
function shape(description) {
    if (typeof description === "string") {
        return description;
    }
    const { tag, attrs, children } = description;
    const inside = children.filter((child) => child.tag !== "details").map(shape).join("");
    return `<${tag}${attrs.href ? ` ${attrs.href}` : ""}>${inside}</${tag}>`;
}

const body = (source) => shape(markdown(source)).replace(/^<div>|<\/div>$/g, "");

const CASES = [
    ["# One\n## Two ##\n###### Six", "<h3>One</h3><h4>Two</h4><h6>Six</h6>"],
    ["One\n===\nTwo\n---", "<h3>One</h3><h4>Two</h4>"],
    ["#no heading", "<p>#no heading</p>"],
    ["a\nb\n\nc", "<p>a\nb</p><p>c</p>"],
    ["a  \nb\\\nc", "<p>a  <br></br>b<br></br>c</p>"],
    ["*a* _b_ **c** __d__ ***e*** ~~f~~", "<p><em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> <em><strong>e</strong></em> <del>f</del></p>"],
    ["**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"],
    ["snake_case_name 2*3*4 * a * ~x~", "<p>snake_case_name 2<em>3</em>4 * a * ~x~</p>"],
    ["\\*a\\* \\<b> \\x", "<p>*a* <b> \\x</p>"],
    ["`a` ``b`c`` `d", "<p><code>a</code> <code>b`c</code> `d</p>"],
    ["`*a*` *`b`*", "<p><code>*a*</code> <em><code>b</code></em></p>"],
    ["```js\n*a*\n\n<b>\n```\nx", "<pre><code>*a*\n\n<b></code></pre><p>x</p>"],
    ["~~~\nopen", "<pre><code>open</code></pre>"],
    ["    code\n\n    more", "<pre><code>code\n\nmore</code></pre>"],
    ["- a\n- b\n  - c\n\n    d\n- e", "<ul><li>a</li><li>b<ul><li><p>c</p><p>d</p></li></ul></li><li>e</li></ul>"],
    ["1. a\n2. b\n   * c", "<ol><li>a</li><li>b<ul><li>c</li></ul></li></ol>"],
    ["7) a\n8) b", "<ul><li>7. a</li><li>8. b</li></ul>"],
    ["- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
    ["- [x] a\n- [ ] b", "<ul><li>☑ a</li><li>☐ b</li></ul>"],
    ["a\n- b", "<p>a</p><ul><li>b</li></ul>"],
    ["> a\nb\n> > c\n\nd", "<blockquote><p>a\nb</p><blockquote><p>c</p></blockquote></blockquote><p>d</p>"],
    ["a\n\n---\n* * *\n___", "<p>a</p><hr></hr><hr></hr><hr></hr>"],
    ["| a | b |\n|:--|--:|\n| 1 | *2* | 3 |\n| 4 |\nend", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><em>2</em></td></tr><tr><td>4</td><td></td></tr></tbody></table></div><p>end</p>"],
    ["[a *b*](https://x.example/p?q=1 \"title\")", "<p><span><a https://x.example/p?q=1>a <em>b</em></a><span> (x.example)</span></span></p>"],
    ["[a](https://x.example/(b)) <https://y.example/>", "<p><span><a https://x.example/(b)>a</a><span> (x.example)</span></span> <span><a https://y.example/>https://y.example/</a></span></p>"],
    ["see https://x.example/a, and (https://x.example).", "<p>see <span><a https://x.example/a>https://x.example/a</a></span>, and (<span><a https://x.example/>https://x.example</a></span>).</p>"],
    ["[https://good.example](https://evil.example/)", "<p><span><a https://evil.example/>https://good.example</a><span> (evil.example)</span></span></p>"],
    ["[https://good.example](https://good.example@evil.example/)", "<p><span><a https://good.example@evil.example/>https://good.example</a><span> (evil.example)</span></span></p>"],
    ["[mail](mailto:a@b.example)", "<p><span><a mailto:a@b.example>mail</a><span> (a@b.example)</span></span></p>"],
    ["![a cat](https://x.example/cat.png)", "<p><span><a https://x.example/cat.png>Image, not loaded: a cat</a><span> (x.example)</span></span></p>"],
    ["[a](javascript:alert(1)) [b](/v1/x) [c](#d)", "<p><span>a (javascript:alert(1))</span> <span>b (/v1/x)</span> <span>c (#d)</span></p>"],
    ["[a [b](https://x.example/) c](https://y.example/)", "<p>[a <span><a https://x.example/>b</a><span> (x.example)</span></span> c](<span><a https://y.example/>https://y.example/</a></span>)</p>"],
    ["<b>bold</b> <!-- x --> &amp;", "<p><b>bold</b> <!-- x --> &amp;</p>"],
    ["a\r\nb", "<p>a\nb</p>"],
    ["", ""],
];

for (const [source, expected] of CASES) {
    test(`markdown ${JSON.stringify(source)}`, () => {
        assert.equal(body(source), expected);
        assertInert(markdown(source));
    });
}

test("HTML is text in every position", () => {
    const tags = ["b", "i", "script", "img"];
    const description = markdown("<b>x</b>\n\n- <i>y</i>\n\n> <script>z</script>\n\n# <img src=x>");
    assert.deepEqual(elements(description).filter(({ tag }) => tags.includes(tag)), []);
    assert.match(words(description), /<script>z<\/script>/);
});

test("a link without an allowed address is text with the visible address", () => {
    const description = markdown("[Approve](data:text/html,x)");
    assert.deepEqual(find(description, "a"), []);
    assert.match(words(description), /Approve \(data:text\/html,x\)/);
});

test("hosts in other alphabets are shown in Punycode", () => {
    assert.match(words(markdown("[bank](https://b\u0430nk.example/)")), /\(xn--/);
});

test("the folded source is exact", () => {
    const [source] = find(markdown("# a\n*b*"), "details");
    assert.equal(words({ ...source, children: source.later() }), "# a\n*b*");
});

test("tables have headers with a scope and can be scrolled with the keyboard", () => {
    const description = markdown("|a|b|\n|-|-|\n|1|2|");
    assert.deepEqual(find(description, "th").map(({ attrs }) => attrs.scope), ["col", "col"]);
    assert.equal(find(description, "div", "table-scroll")[0].attrs.tabindex, 0);
});

const million = (piece) => piece.repeat(Math.ceil(1_000_000 / piece.length));
const fit = (piece) => piece.repeat(Math.ceil(19_000 / piece.length));
const NASTY = ["[", "![", "](", "*", "*a ", "**a", "_a", "`", "`a``b", "[a](", "[a](b) ", ">", "> ", "- ", "1. ", "#", "<", "<http://", "http://", "h", "|", "|-", "\n", "a\n", "- a\n", "> a\n", "    ", "\\", "~~a", "a]", "*a_ ", "\u202e", "\u202ea", "|a|b|\n", "# a\n"];
for (const piece of NASTY) {
    test(`a megabyte of ${JSON.stringify(piece)} is shown in portions, in bounded time`, () => {
        for (const source of [million(piece), fit(piece), `|a|b|\n|-|-|\n${million(piece)}`, `- ${million(piece)}`]) {
            let description;
            const cost = costMs(() => { description = markdown(source); });
            assert.ok(cost < 3_000, `${cost} ms`);
            assert.ok(size(description) < 60_000, `${size(description)} parts`);
            assert.ok(depth(description) < 60, `${depth(description)} levels`);
        }
    });
}

test("the nesting of lists, quotes and emphasis is limited", () => {
    const lists = Array.from({ length: 1000 }, (_, level) => `${"  ".repeat(level)}- x`).join("\n");
    const emphasis = `${"*a **b ".repeat(500)}${" b** a*".repeat(500)}`;
    for (const source of [lists, `${">".repeat(1000)} x`, emphasis]) {
        assert.ok(depth(opened(markdown(source))) < 60);
    }
});

test("the button shows the next portion", () => {
    const description = markdown(Array.from({ length: 500 }, (_, index) => `word${index}`).join("\n\n"));
    assert.doesNotMatch(words(description), /word400/);
    assert.match(words(opened(description)), /word199[^]*word499/);
});
