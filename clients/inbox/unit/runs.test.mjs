//! The list of runs: groups of statuses, pages over several statuses, and changes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { beginningOf, createModel, groupFrom, loadPage, searchOf } from "../../../crates/holdpoint/src/inbox/page/runs/model.js";
import { rows } from "../../../crates/holdpoint/src/inbox/page/runs/rows.js";
import { endOfId } from "../../../crates/holdpoint/src/inbox/page/show/characters.js";
import { assertInert, find, words } from "./descriptions.mjs";
import { PAYLOADS } from "./payloads.mjs";

const START = Date.UTC(2026, 0, 1);
const run = (number, status, more = {}) => ({
    runId: `run-${String(number).padStart(4, "0")}`, workflowId: "release", status, createdAt: new Date(START + number * 1000).toISOString(), ...more,
});
const ids = (list) => list.map(({ runId }) => Number(runId.slice(4)));

/** Returns a fake API with these runs: newest first, one status at a time. */
function server(all) {
    const calls = [];
    async function get(path, { query }) {
        calls.push({ path, query });
        const fitting = all.filter(({ status }) => !query.status || status === query.status).sort((one, other) => (one.runId < other.runId ? 1 : -1));
        const from = query.cursor ? fitting.findIndex(({ runId }) => runId === query.cursor) + 1 : 0;
        const runs = fitting.slice(from, from + query.limit);
        return { runs, nextCursor: from + query.limit < fitting.length ? runs.at(-1).runId : undefined };
    }
    return { get, calls, all };
}

function modelOf(api, group = "all") {
    return createModel({ api, group, changed: () => {} });
}

test("the address selects the group, and an unknown group is ignored", () => {
    for (const group of ["waiting", "running", "completed", "failed", "cancelled"]) {
        assert.equal(groupFrom(Object.fromEntries(new URLSearchParams(searchOf(group)))), group);
    }
    assert.deepEqual([groupFrom({}), groupFrom({ status: "constructor" }), searchOf("all")], ["all", "all", ""]);
});

test("the group waiting lists several statuses together, newest first over all pages", async () => {
    const states = ["waiting-approval", "completed", "waiting-input", "waiting-approval", "waiting-external", "waiting-approval"];
    const api = server(Array.from({ length: 60 }, (_, number) => run(number, states[number % states.length])));
    const seen = [];
    let place = beginningOf("waiting");
    for (let pages = 0; place !== null; pages += 1) {
        assert.ok(pages < 20, "the pages end");
        const page = await loadPage(api, place, 7);
        assert.ok(page.items.length <= 7);
        seen.push(...page.items);
        place = page.next;
    }
    const expected = api.all.filter(({ status }) => status.startsWith("waiting")).reverse();
    assert.deepEqual(ids(seen), ids(expected));
});

test("runs on a later page of several statuses have their current status", async () => {
    const states = ["waiting-approval", "waiting-input", "paused"];
    const api = server(Array.from({ length: 70 }, (_, number) => run(number, states[number % states.length])));
    const model = modelOf(api, "waiting");
    await model.load();
    await model.next();
    const shown = ids(model.state.items);
    assert.deepEqual(shown, Array.from({ length: 20 }, (_, at) => 19 - at));
    const statusOf = (number) => model.state.items[shown.indexOf(number)]?.status;
    api.all[15] = run(15, "waiting-external");
    await model.refresh();
    assert.deepEqual([statusOf(15), ids(model.state.items), model.state.isOld], ["waiting-external", shown, false]);
    api.all[14] = run(14, "paused", { updatedAt: "later" });
    await model.load();
    assert.deepEqual([model.state.items[5].updatedAt, ids(model.state.items)], ["later", shown]);
    api.all[13] = run(13, "completed");
    await model.refresh();
    assert.equal(model.state.isOld, true);
    await model.load();
    assert.deepEqual(ids(model.state.items), shown.filter((number) => number !== 13));
    assert.ok(!JSON.stringify(model.state.trail).includes("createdAt"), "the trail contains no runs");
});

test("pages can be turned forward and back, and end", async () => {
    const model = modelOf(server(Array.from({ length: 120 }, (_, number) => run(number, "completed"))));
    await model.load();
    assert.deepEqual([model.state.items.length, ids(model.state.items)[0]], [50, 119]);
    assert.equal(await model.previous(), false);
    assert.equal(await model.next(), true);
    assert.equal(await model.next(), true);
    assert.deepEqual([model.state.trail.length, model.state.items.length, model.state.next], [3, 20, null]);
    assert.equal(await model.next(), false);
    assert.equal(await model.previous(), true);
    assert.equal(ids(model.state.items)[0], 69);
});

test("a refresh updates the shown runs in place and reports new runs", async () => {
    const api = server([run(1, "running"), run(2, "waiting-approval")]);
    const model = modelOf(api);
    await model.load();
    api.all[1] = run(2, "completed");
    await model.refresh();
    assert.deepEqual([model.state.items.map(({ status }) => status), model.state.isOld], [["completed", "running"], false]);
    api.all.push(run(3, "running"));
    await model.refresh();
    assert.deepEqual([ids(model.state.items), model.state.isOld], [[2, 1], true]);
    await model.load();
    assert.deepEqual([ids(model.state.items), model.state.isOld], [[3, 2, 1], false]);
});

test("a failed page keeps the previous one, and is loaded when the server is reachable again", async () => {
    const all = [...Array.from({ length: 60 }, (_, number) => run(number, "running")), run(99, "failed")];
    for (const again of ["refresh", "load", "next"]) {
        const api = server(all);
        let isBroken = false;
        const model = modelOf({ get: (...call) => (isBroken ? Promise.reject(new Error("gone")) : api.get(...call)) }, "running");
        await model.load();
        isBroken = true;
        assert.equal(await model.choose("failed"), false);
        assert.deepEqual([model.state.items.length, model.state.problem.message], [50, "gone"]);
        assert.equal(model.state.wanted.at(-1).group, model.state.group, "the kept position belongs to the group");
        isBroken = false;
        await model[again]();
        assert.deepEqual([ids(model.state.items), model.state.group, model.state.problem], [[99], "failed", null], again);
    }
});

test("a late response does not replace a group that was chosen after it", async () => {
    const api = server([run(1, "failed"), run(2, "completed")]);
    let come;
    const slow = { get: async (path, options) => (options.query.status === "failed" && (await new Promise((done) => (come = done))), api.get(path, options)) };
    const model = modelOf(slow);
    const late = model.choose("failed");
    await model.choose("completed");
    come();
    assert.equal(await late, false);
    assert.deepEqual([ids(model.state.items), model.state.group], [[2], "completed"]);
});

test("a row links to its timeline with a unique name", () => {
    const around = { now: START, href: (runId) => `/inbox/runs/${encodeURIComponent(runId)}` };
    const shown = rows({ items: [run(1, "completed", { runId: "01a1e34b-2de6-726c-8393-ea3d3312aded" }), run(2, "failed", { workflowId: "holdpoint-hold" })] }, around);
    const links = find(shown, "a");
    assert.deepEqual(links.map(words), ["release Run …3312aded", "Hold Run run-0002"]);
    assert.equal(links[0].attrs.href, "/inbox/runs/01a1e34b-2de6-726c-8393-ea3d3312aded");
    assert.equal(endOfId("short"), "short");
});

test("the names of runs stay text", () => {
    for (const payload of PAYLOADS) {
        const text = String(payload);
        assertInert(rows({ items: [run(1, text, { runId: text, workflowId: text, errorCode: text })] }, { now: START, href: () => "/inbox/runs/x" }));
    }
});

test("a rejected run is shown as rejected, and a failed run with its error code", () => {
    const items = [run(1, "failed", { errorCode: "approval_rejected" }), run(2, "failed", { errorCode: "out_of_paper" }), run(3, "completed")];
    const shown = rows({ items, isLoading: false }, { now: START, href: () => "/" });
    const [rejected, failed, completed] = find(shown, "li").map(words);
    assert.ok(rejected.includes("rejected") && !rejected.includes("approval_rejected"), rejected);
    assert.ok(failed.includes("failed") && failed.includes("out_of_paper"), failed);
    assert.ok(!completed.includes("undefined"), completed);
});

test("a hold has its title, and a rejected or timed out hold is not shown as completed", () => {
    const hold = (outcome) => run(1, "completed", { workflowId: "holdpoint-hold", outcome, title: "Deploy v2?" });
    for (const [outcome, word] of [["rejected", "rejected"], ["timed_out", "timed out"], ["approved", "approved"], ["answered", "answered"]]) {
        const shown = rows({ items: [hold(outcome)], isLoading: false }, { now: START, href: (id) => id });
        const text = words(shown);
        assert.ok(text.includes("Deploy v2?") && text.includes(word) && !text.includes("completed"), text);
        assert.equal(find(shown, "span", "chip-good").length, outcome === "approved" ? 1 : 0, outcome);
    }
});
