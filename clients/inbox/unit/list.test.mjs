//! The list of pending interrupts: filters, pages, changes, and bulk decisions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createBulk, describeResult, summaryOf, CONCURRENCY } from "../../../crates/holdpoint/src/inbox/page/list/bulk.js";
import { empty } from "../../../crates/holdpoint/src/inbox/page/list/empty.js";
import { createModel, SELECTION_MAX } from "../../../crates/holdpoint/src/inbox/page/list/model.js";
import { compare, loadPage, newSince } from "../../../crates/holdpoint/src/inbox/page/list/pages.js";
import { filtersFrom, matches, narrowing, pageQuery, searchOf } from "../../../crates/holdpoint/src/inbox/page/list/query.js";
import { rows } from "../../../crates/holdpoint/src/inbox/page/list/rows.js";
import { texts } from "../../../crates/holdpoint/src/inbox/page/texts.js";
import { assertInert, find, size, words } from "./descriptions.mjs";
import { PAYLOADS } from "./payloads.mjs";

const item = (number, more = {}) => ({
    interruptId: `i${number}`, runId: `r${number}`, nodeId: "review", kind: "approval", workflowId: "release", title: `Item ${number}`,
    requestedAt: new Date(Date.UTC(2026, 0, 1) + number * 60_000).toISOString(), assignees: [], openAsks: 0, ...more,
});
const items = (from, to) => Array.from({ length: to - from }, (_, index) => item(from + index));
const ids = (list) => list.map(({ interruptId }) => interruptId);

/** Returns a fake API with these pending items. */
function server(waiting) {
    const calls = [];
    async function get(path, { query = {} } = {}) {
        calls.push({ path, query });
        if (path === "/v1/interrupts:counts") {
            return { total: waiting.length, byKind: { approval: waiting.length }, overdue: 0, dueSoon: 0, isComplete: true };
        }
        if (path === "/v1/runs") {
            return { runs: waiting.length ? [{}] : [] };
        }
        const ordered = query.order === "newest" ? [...waiting].reverse() : waiting;
        const from = query.cursor ? ordered.findIndex(({ interruptId }) => interruptId === query.cursor) + 1 : 0;
        const page = ordered.slice(from, from + query.limit);
        const nextCursor = from + query.limit < ordered.length ? page.at(-1).interruptId : undefined;
        return { interrupts: page, nextCursor };
    }
    return { get, calls, waiting };
}

function modelOf(api, options = {}) {
    const itemsAdded = [];
    const model = createModel({ api, filters: filtersFrom({}), changed: () => {}, itemsAdded: (amount) => itemsAdded.push(amount), ...options });
    return { model, itemsAdded };
}

test("filters are kept in the address, and unknown values are ignored", () => {
    const filters = filtersFrom({ whose: "all", kind: "approval,nonsense,custom", tag: "a b", order: "deadline", q: "x&y" });
    assert.deepEqual(filters, { isMine: false, kinds: ["approval", "custom"], workflowId: "", tag: "a b", order: "deadline", text: "x&y" });
    assert.deepEqual(filtersFrom(Object.fromEntries(new URLSearchParams(searchOf(filters)))), filters);
    assert.equal(searchOf(filtersFrom({ order: "sideways" })), "");
    assert.equal(narrowing(filters), 5);
});

test("the default list has the items of the caller, oldest first", () => {
    const query = pageQuery(filtersFrom({}));
    assert.equal(query.assignee, "me");
    assert.equal(query.order, "oldest");
});

test("a search matches items that contain every word", () => {
    const one = item(1, { tags: ["prod"], assignees: ["role:editors"], excerpt: "to: bob" });
    assert.ok(matches(one, " PROD release "));
    assert.ok(matches(one, "editors item"));
    assert.ok(matches(one, "bob"));
    assert.ok(!matches(one, "prod staging"));
});

test("a short page of the server does not end the list", async () => {
    const pages = [{ interrupts: [], nextCursor: "a" }, { interrupts: items(0, 3), nextCursor: "b" }, { interrupts: items(3, 4) }];
    const page = await loadPage({ get: async () => pages.shift() }, filtersFrom({}), null);
    assert.deepEqual(ids(page.items), ["i0", "i1", "i2", "i3"]);
    assert.equal(page.nextCursor, null);
});

test("a search without matches stops after some pages and returns the number of searched items", async () => {
    const api = server(items(0, 2000));
    const page = await loadPage(api, filtersFrom({ q: "nowhere" }), null);
    assert.equal(api.calls.length, 10);
    assert.equal(page.scanned, 500);
    assert.notEqual(page.nextCursor, null);
});

test("answered items are gone, items that moved to another page are not", () => {
    const shown = items(0, 3).reverse();
    const fresh = { items: [item(5), item(4), item(2)], nextCursor: "more" };
    const { gone, added } = compare(shown, fresh, "newest");
    assert.deepEqual([...gone], []);
    assert.deepEqual(ids(added), ["i5", "i4"]);
    assert.deepEqual([...compare(shown, { items: [item(5), item(1)], nextCursor: "more" }, "newest").gone], ["i2"]);
    assert.deepEqual([...compare(shown, { items: [], nextCursor: null }, "newest").gone], ["i2", "i1", "i0"]);
});

test("items keep their positions and show their current data", () => {
    const voted = item(1, { votes: { approvals: 1 } });
    const { items: now } = compare(items(0, 3), { items: [voted, item(2), item(9)], nextCursor: null }, "oldest");
    assert.deepEqual(ids(now), ["i0", "i1", "i2"]);
    assert.equal(now[1].votes.approvals, 1);
});

test("new items are newer than the newest known item and match the filters", () => {
    const newest = [item(9, { expiresAt: "2026-02-01T00:00:00Z" }), item(8), item(7)];
    assert.deepEqual(ids(newSince(newest, item(7), filtersFrom({}))), ["i9", "i8"]);
    assert.deepEqual(ids(newSince(newest, item(7), filtersFrom({ order: "deadline" }))), ["i9"]);
    assert.deepEqual(ids(newSince(newest, item(7), filtersFrom({ q: "item 8" }))), ["i8"]);
});

test("new items are counted without moving the shown items", async () => {
    const api = server(items(0, 3));
    const { model, itemsAdded } = modelOf(api);
    await model.load();
    api.waiting.push(item(3), item(4));
    api.waiting.splice(1, 1);
    await model.refresh();
    assert.deepEqual(ids(model.state.items), ["i0", "i1", "i2"]);
    assert.deepEqual([...model.state.gone], ["i1"]);
    assert.equal(model.state.added, 2);
    assert.deepEqual(itemsAdded, [2]);
    await model.refresh();
    assert.deepEqual(itemsAdded, [2], "reported once");
    await model.filter(model.newPlace());
    assert.deepEqual(ids(model.state.items), ["i0", "i2", "i3", "i4"]);
    assert.equal(model.state.added, 0);
});

test("new items of a long list are found even if they are on another page", async () => {
    const api = server(items(0, 120));
    const { model, itemsAdded } = modelOf(api);
    await model.load();
    api.waiting.push(item(500));
    await model.refresh();
    assert.deepEqual(itemsAdded, [1]);
    assert.equal(model.state.items.length, 50);
    await model.filter(model.newPlace());
    assert.equal(model.state.items[0].interruptId, "i500");
});

test("an empty list shows new items immediately", async () => {
    const api = server([]);
    const { model } = modelOf(api);
    await model.load();
    assert.equal(model.state.isFirstTime, true);
    api.waiting.push(item(1));
    await model.refresh();
    await model.load();
    assert.deepEqual(ids(model.state.items), ["i1"]);
    assert.equal(model.state.isFirstTime, false);
});

test("only one page is kept in memory", async () => {
    const { model } = modelOf(server(items(0, 1000)));
    await model.load();
    for (let page = 0; page < 19; page += 1) {
        assert.equal(await model.next(), true);
        assert.equal(model.state.items.length, 50);
    }
    assert.equal(await model.next(), false);
    assert.equal(model.state.items.at(-1).interruptId, "i999");
    await model.previous();
    assert.equal(model.state.items.at(-1).interruptId, "i949");
});

test("a late response does not replace a page that was requested after it", async () => {
    const api = server(items(0, 100));
    const waits = [];
    const slow = { get: (path, options) => (options.query.tag === "slow" ? new Promise((done) => waits.push(done)) : api.get(path, options)) };
    const { model } = modelOf(slow);
    const late = model.filter({ tag: "slow" });
    await model.filter({ tag: "" });
    waits.forEach((done) => done({ interrupts: [item(999)], total: 1, byKind: {}, runs: [] }));
    await late;
    assert.equal(model.state.items[0].interruptId, "i0");
});

test("the page number changes together with the items, and no other page is turned during a load", async () => {
    const api = server(items(0, 200));
    let come = null;
    const slow = { get: async (path, options) => (options.query.cursor === "i49" && (await new Promise((done) => (come = done))), api.get(path, options)) };
    const { model } = modelOf(slow);
    const shown = () => [model.state.trail.length, model.state.items[0].interruptId, model.isTurning()];
    await model.load();
    const turned = model.next();
    assert.deepEqual(shown(), [1, "i0", true]);
    assert.equal(await model.next(), false);
    come();
    assert.equal(await turned, true);
    assert.deepEqual(shown(), [2, "i50", false]);
});

test("a failed page keeps the previous page with its number, and is the page that is retried", async () => {
    const api = server(items(0, 200));
    let isBroken = false;
    const { model } = modelOf({ get: async (path, options) => (isBroken ? Promise.reject(new Error("gone")) : api.get(path, options)) });
    const shown = () => [model.state.trail.length, model.state.items[0].interruptId, model.state.problem?.message ?? null];
    await model.load();
    isBroken = true;
    assert.equal(await model.next(), false);
    assert.deepEqual(shown(), [1, "i0", "gone"]);
    isBroken = false;
    await model.load();
    assert.deepEqual(shown(), [2, "i50", null]);
});

test("a failed list is loaded again at the next change, and none of its items is gone", async () => {
    const api = server(items(0, 200));
    let isBroken = false;
    const { model } = modelOf({ get: async (path, options) => (isBroken ? Promise.reject(new Error("gone")) : api.get(path, options)) });
    await model.load();
    await model.next();
    isBroken = true;
    await model.filter({ order: "newest" });
    isBroken = false;
    await model.refresh();
    assert.deepEqual([model.state.trail.length, model.state.items[0].interruptId, model.state.gone.size, model.state.problem], [1, "i199", 0, null]);
});

test("only pending approvals can be selected, up to the maximum", async () => {
    const api = server([item(0, { kind: "clarification" }), ...items(1, 300)]);
    const { model } = modelOf(api);
    await model.load();
    model.selectPage(true);
    assert.equal(model.state.selection.size, 49);
    for (let page = 0; page < 5; page += 1) {
        await model.next();
        model.selectPage(true);
    }
    assert.equal(model.state.selection.size, SELECTION_MAX);
    assert.equal(model.state.isSelectionFull, true);
    model.clearSelection();
    assert.equal(model.state.selection.size, 0);
});

test("a selected item that is answered elsewhere is deselected", async () => {
    const api = server(items(0, 3));
    const { model } = modelOf(api);
    await model.load();
    model.selectPage(true);
    api.waiting.splice(0, 1);
    await model.refresh();
    assert.deepEqual([...model.state.selection.keys()], ["i1", "i2"]);
});

const around = { now: Date.UTC(2026, 0, 2), texts: texts.list, href: (one) => `/inbox/pauses/${encodeURIComponent(one.runId)}/x`, select: () => {}, filter: () => {} };
const stateOf = (list, more = {}) => ({ items: list, gone: new Set(), selection: new Map(), filters: filtersFrom({}), trail: [null], others: null, ...more });

test("the fields of items stay text", () => {
    for (const payload of PAYLOADS) {
        const text = String(payload);
        const evil = item(1, { title: text, workflowId: text, tags: [text], assignees: [text], kind: "custom" });
        assertInert(rows(stateOf([evil]), around));
    }
});

test("a row with long fields stays small", () => {
    const long = "x".repeat(100_000);
    const big = item(1, { title: long, workflowId: long, tags: Array(500).fill(long), assignees: Array(500).fill(long) });
    const description = rows(stateOf([big]), around);
    assert.ok(size(description) < 60);
    assert.ok(words(description).length < 1500);
});

test("only items that can be decided in the list have a check box", () => {
    const list = [item(0), item(1, { kind: "clarification" }), item(2)];
    const description = rows(stateOf(list, { gone: new Set(["i2"]) }), around);
    assert.equal(find(description, "input").length, 1);
    assert.match(words(description), /No longer pending/);
});

test("items with the same title show their runs, and a hold shows no workflow", () => {
    const list = [item(1, { runId: "01a1e34b-2de6-726c-8393-ea3d3312aded" }), item(2, { runId: "01a1e34b-2de6-726c-8393-00000000beef", workflowId: "holdpoint-hold" })];
    const [first, second] = find(rows(stateOf(list), around), "div", "item-meta").map(words);
    assert.equal(first, "◆ApprovalreleaseRun …3312aded");
    assert.equal(second, "◆ApprovalRun …0000beef");
});

test("an empty list shows the reason and what to do", () => {
    const emptyText = (more) => words(empty(stateOf([], more), { texts: texts.list, shell: texts.shell, filter: () => {}, previous: () => {} }));
    assert.match(emptyText({}), /No pending items for you/);
    assert.match(emptyText({ others: { total: 3, isComplete: true } }), /3 items are pending for others.*Show all pending items/);
    assert.match(emptyText({ filters: filtersFrom({ tag: "x" }) }), /Clear all filters/);
    assert.match(emptyText({ filters: filtersFrom({ whose: "all" }) }), /holdpoint ask.*POST \/v1\/holds\s+\{"title": "Deploy version 2\?"\}.*holdpoint is the program that serves this page/s);
    const links = (runs) => find(empty(stateOf([]), { texts: texts.list, shell: texts.shell, filter: () => {}, previous: () => {}, runs }), "a");
    assert.deepEqual(links("/inbox/runs").map(words), ["Show past decisions"]);
    assert.deepEqual(links(null), []);
});

function bulkOf(list, decide, lookUp = async () => undefined) {
    let keys = 0;
    return createBulk({ items: list, action: "accept", decide, lookUp, changed: () => {}, freshKey: () => `key ${(keys += 1)}` });
}

const problem = (code, message = code) => Object.assign(new Error(message), { code });

test("each item of a bulk decision has its own result", async () => {
    const answers = {
        i0: () => ({ outcome: "resolved" }),
        i1: () => ({ outcome: "voted" }),
        i2: () => { throw problem("interrupt_already_resolved"); },
        i3: () => { throw problem("payload_mismatch"); },
        i4: () => { throw problem("forbidden"); },
        i5: () => { throw problem("internal_error", "the disk is full"); },
        i6: () => { throw problem("interrupt_already_resolved"); },
    };
    const became = { i2: { status: "answered", decision: { by: "carol", action: "reject" } }, i6: { status: "timed-out" } };
    const bulk = bulkOf(items(0, 7), async (one) => answers[one.interruptId](), async (one) => became[one.interruptId]);
    await bulk.run("");
    const shown = bulk.results.map((result) => describeResult(result, "accept", texts.list.results));
    assert.deepEqual(shown.map(({ level }) => level), ["good", "good", "over", "bad", "bad", "bad", "over"]);
    assert.equal(shown[2].text, "carol already rejected it");
    assert.equal(shown[5].text, "failed: the disk is full");
    assert.deepEqual(summaryOf(bulk.results), { done: 2, answered: 2, failed: 3, left: 0, retryable: 1 });
});

test("the number of concurrent requests is limited", async () => {
    let now = 0;
    let most = 0;
    const bulk = bulkOf(items(0, 40), async () => {
        now += 1;
        most = Math.max(most, now);
        await new Promise((done) => setImmediate(done));
        now -= 1;
        return { outcome: "resolved" };
    });
    await bulk.run("");
    assert.equal(most, CONCURRENCY);
    assert.equal(summaryOf(bulk.results).done, 40);
});

test("a request that may have arrived is retried with its key, a refused request with another key", async () => {
    const sent = [];
    let isUp = false;
    const bulk = bulkOf(items(0, 2), async (one, value, key) => {
        sent.push([one.interruptId, key]);
        if (!isUp) {
            throw one.interruptId === "i0" ? problem("unreachable") : problem("overloaded");
        }
        return { outcome: "resolved" };
    });
    await bulk.run("");
    isUp = true;
    await bulk.retry("");
    assert.deepEqual(sent, [["i0", "key 1"], ["i1", "key 2"], ["i0", "key 1"], ["i1", "key 3"]]);
    assert.equal(summaryOf(bulk.results).done, 2);
});

test("every result has a text", () => {
    const states = ["waiting", "sending", "done", "voted", "repeated", "answered", "timedOut", "cancelled", "changed", "forbidden", "unreachable", "failed", "stopped"];
    for (const state of states) {
        const { text } = describeResult({ state, why: "why" }, "reject", texts.list.results);
        assert.equal(typeof text, "string", state);
    }
});

test("a stopped item is not sent, and its result is stopped", async () => {
    let sent = 0;
    const bulk = bulkOf(items(0, 20), async () => {
        sent += 1;
        bulk.stop();
        return { outcome: "resolved" };
    });
    await bulk.run("");
    assert.equal(sent, 1);
    assert.equal(describeResult(bulk.results[19], "accept", texts.list.results).text, "not sent");
    assert.deepEqual(summaryOf(bulk.results), { done: 1, answered: 0, failed: 19, left: 0, retryable: 19 });
});

test("a row is described again only if its text changes", () => {
    const one = item(1, { expiresAt: "2026-01-02T00:30:00Z" });
    const at = (now, more) => rows(stateOf([one], more), { ...around, now }).children[0];
    const first = at(around.now);
    assert.equal(at(around.now + 1), at(around.now + 2));
    assert.notEqual(at(around.now + 5000), first);
    assert.notEqual(at(around.now, { selection: new Map([["i1", one]]) }), at(around.now, { gone: new Set(["i1"]) }));
});
