//! Drawings of workflows: layers, back edges, and the list of steps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { render } from "../../../crates/holdpoint/src/inbox/page/dom.js";
import { draw } from "../../../crates/holdpoint/src/inbox/page/graph/draw.js";
import { layout, NODE_WIDTH } from "../../../crates/holdpoint/src/inbox/page/graph/layout.js";
import { visibleText } from "../../../crates/holdpoint/src/inbox/page/show/characters.js";
import { assertInert, costMs, find, opened, words } from "./descriptions.mjs";
import { container, fakeDocument } from "./fake_document.mjs";
import { PAYLOADS } from "./payloads.mjs";

/** Creates a workflow from pairs of names: `workflow("a>b", "b>c")`. */
function workflow(...pairs) {
    const edges = pairs.filter((pair) => pair.includes(">")).map((pair) => ({ id: pair, sourceNodeId: pair.split(">")[0], targetNodeId: pair.split(">")[1] }));
    const ids = Array.from(new Set(pairs.flatMap((pair) => pair.split(">"))));
    return { name: "Test", nodes: ids.map((id) => ({ id, name: id.toUpperCase(), typeId: "core.noop" })), edges };
}

const layersOf = (plan) => Object.fromEntries(plan.nodes.map(({ id, layer }) => [id, layer]));
const backOf = (plan) => plan.edges.filter(({ isBack }) => isBack).map(({ id }) => id);

test("the layer of a node is its longest path", () => {
    assert.deepEqual(layersOf(layout(workflow("a>b", "b>c", "a>c", "c>d", "a>d", "x>d"))), { a: 0, b: 1, c: 2, d: 3, x: 0 });
});

test("back edges are marked and do not change layers", () => {
    const plan = layout(workflow("start>draft", "draft>ask", "ask>publish", "ask>draft", "draft>draft"));
    assert.deepEqual(layersOf(plan), { start: 0, draft: 1, ask: 2, publish: 3 });
    assert.deepEqual(backOf(plan), ["ask>draft", "draft>draft"]);
});

test("a cycle without a start is drawn", () => {
    const plan = layout(workflow("a>b", "b>c", "c>a"));
    assert.deepEqual(backOf(plan), ["c>a"]);
});

test("edges to unknown nodes and duplicate nodes are ignored", () => {
    const odd = workflow("a>b");
    odd.edges.push({ id: "x", sourceNodeId: "a", targetNodeId: "missing" });
    odd.nodes.push({ ...odd.nodes[0] });
    assert.equal(layout(odd).edges.length, 1);
    assert.equal(layout(odd).nodes.length, 2);
    for (const nothing of [{}, { nodes: [] }, null]) {
        assert.deepEqual(layout(nothing).nodes, []);
    }
    assert.match(words(draw({ nodes: [], edges: [] })), /no steps/);
});

test("nodes of a row do not overlap, and all parts are within the drawing", () => {
    const pairs = ["s>a", "s>b", "s>c", "s>d", "a>e", "b>e", "c>f", "d>f", "e>z", "f>z", "s>z", "z>s", "b>f", "a>f"];
    const plan = layout(workflow(...pairs));
    for (const one of plan.nodes) {
        assert.ok(one.x >= 0 && one.y >= 0 && one.x + NODE_WIDTH <= plan.width);
        for (const other of plan.nodes) {
            assert.ok(one === other || one.layer !== other.layer || Math.abs(one.x - other.x) >= NODE_WIDTH + 1);
        }
    }
    for (const { points } of plan.edges) {
        points.forEach(({ x, y }) => assert.ok(x >= 0 && x <= plan.width && y >= 0 && y <= plan.height));
    }
});

test("long edges do not cross the nodes of the rows between", () => {
    const plan = layout(workflow("a>b", "b>c", "c>d", "a>d"));
    const long = plan.edges.find(({ id }) => id === "a>d");
    for (const node of plan.nodes.filter(({ id }) => id === "b" || id === "c")) {
        const passing = long.points.filter(({ y }) => y >= node.y && y <= node.y + 60);
        assert.ok(passing.length > 0);
        passing.forEach(({ x }) => assert.ok(x < node.x || x > node.x + NODE_WIDTH));
    }
});

test("the order of a row follows its incoming edges, so that edges do not cross", () => {
    const plan = layout(workflow("s>a", "s>b", "b>y", "a>x"));
    const x = Object.fromEntries(plan.nodes.map((node) => [node.id, node.x]));
    assert.equal(x.a < x.b, x.x < x.y);
});

test("the drawing has a title, the current node, and each status as text and sign", () => {
    const states = { a: { status: "completed" }, b: { status: "suspended" }, c: { status: "constructor" } };
    const shown = draw(workflow("a>b", "b>c"), states, "b");
    const [svg] = find(shown, "svg");
    assert.equal(svg.attrs.role, "img");
    assert.deepEqual(svg.attrs["aria-labelledby"].split(" "), [find(shown, "title")[0].attrs.id, find(shown, "desc")[0].attrs.id]);
    assert.equal(words(find(shown, "desc")[0]), "3 steps, 2 connections. Now at B: waits for an answer.");
    assert.deepEqual(find(shown, "text", "node-status").map(words), ["✓ done", "‖ waits for an answer", "○ not started"]);
    assert.deepEqual(find(shown, "g", "node").map(({ attrs }) => attrs.class), ["node node-completed", "node node-suspended node-current", "node node-pending"]);
    assert.equal(find(shown, "g", "edge-taken").length, 1);
});

test("the list has the same information as the drawing", () => {
    const graph = workflow("a>b", "b>c", "b>a");
    graph.edges[1].sourceOutput = "yes";
    graph.edges[2].condition = { type: "expression" };
    const list = find(opened(draw(graph, { b: "running" }, "b")), "li");
    assert.deepEqual(list.map(words), ["A: not startedThen: B", "B: running, the run is hereThen: C (yes)Back to: A (if a condition holds)", "C: not startedEnd of the path."]);
    assert.deepEqual(list.map(({ attrs }) => attrs["aria-current"]), [undefined, "step", undefined]);
});

test("a step can be selected in the drawing and in the list", () => {
    const chosen = [];
    const main = container();
    main.insertBefore(render(draw(workflow("a>b"), {}, null, { select: (id) => chosen.push(id) }), main.ownerDocument), null);
    main.all("g").find((g) => g.getAttribute("class").includes("node-selectable")).fire("click");
    main.all("details")[0].openDetails();
    main.all("button")[1].fire("click");
    assert.deepEqual(chosen, ["a", "b"]);
});

for (const payload of PAYLOADS) {
    test(`a payload stays text in a drawing: ${JSON.stringify(payload)}`, () => {
        const graph = { id: payload, name: payload, nodes: [{ id: payload, name: payload, typeId: payload }, { id: "b", name: "B" }], edges: [{ id: payload, sourceNodeId: payload, targetNodeId: "b", label: payload, sourceOutput: payload }] };
        const shown = draw(graph, { [payload]: { status: payload } }, payload, { select: () => {} });
        assertInert(shown);
        render(shown, fakeDocument());
        assert.ok(words(opened(shown)).includes(visibleText(payload.replace(/\s+/g, " ").trim())));
    });
}

test("a thousand nodes and four thousand edges are drawn in bounded time", () => {
    const chain = workflow(...Array.from({ length: 999 }, (_, index) => `n${index}>n${index + 1}`));
    const many = { nodes: chain.nodes, edges: Array.from({ length: 4000 }, (_, index) => ({ id: `e${index}`, sourceNodeId: `n${(index * 7919) % 1000}`, targetNodeId: `n${(index * 104729 + 13) % 1000}` })) };
    const wide = workflow(...Array.from({ length: 999 }, (_, index) => `s>n${index}`));
    const skipping = { nodes: chain.nodes, edges: [...chain.edges, ...Array.from({ length: 3000 }, (_, index) => ({ id: `e${index}`, sourceNodeId: `n${index % 100}`, targetNodeId: `n${999 - (index % 300)}` }))] };
    for (const graph of [chain, many, wide, skipping]) {
        const cost = costMs(() => draw(graph));
        assert.ok(cost < 3_000, `${cost} ms`);
    }
});
