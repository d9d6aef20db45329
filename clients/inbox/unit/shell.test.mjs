//! The frame of the page: addresses, API calls, the stream of changes, shortcuts, and the first screen.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { address, createApi, freshKey, Problem } from "../../../crates/holdpoint/src/inbox/page/api.js";
import { describeKeys, isTyping, keyFor } from "../../../crates/holdpoint/src/inbox/page/keys.js";
import { POLL_MS, waitBefore, watch } from "../../../crates/holdpoint/src/inbox/page/live.js";
import { onceOf, parse, paths, prefixOf } from "../../../crates/holdpoint/src/inbox/page/router.js";
import { texts } from "../../../crates/holdpoint/src/inbox/page/texts.js";
import { open as openList } from "../../../crates/holdpoint/src/inbox/page/views/list.js";
import { open as openRuns } from "../../../crates/holdpoint/src/inbox/page/views/runs.js";
import { isNew, startSample } from "../../../crates/holdpoint/src/inbox/page/views/welcome.js";
import { topBar } from "../../../crates/holdpoint/src/inbox/page/views/top.js";
import { assertInert, words } from "./descriptions.mjs";
import { PAYLOADS } from "./payloads.mjs";

test("paths are parsed to their parameters", () => {
    for (const [runId, nodeId] of [["r1", "review"], ["a/b", "x y"], ["ü?#", "%2F"]]) {
        assert.deepEqual(parse(paths.interrupt(runId, nodeId), "?do=edit"), { view: "interrupt", params: { do: "edit", runId, nodeId } });
        assert.deepEqual(parse(paths.run(runId)), { view: "run", params: { runId } });
    }
    assert.equal(parse("/inbox").view, "list");
    assert.equal(parse("/inbox/").view, "list");
    assert.deepEqual(parse(paths.runs(), "?status=failed"), { view: "runs", params: { status: "failed" } });
});

test("unknown and invalid paths have no view", () => {
    for (const path of ["/inbox/nowhere", "/inbox/pauses/r1", "/inbox/runs/%E0%A4%A", "/other"]) {
        assert.equal(parse(path).view, "unknown", path);
    }
});

test("a query cannot override the run of the path", () => {
    assert.equal(parse("/inbox/runs/real", "?runId=other").params.runId, "real");
});

test("the prefix of a proxy is found in the address of the module", () => {
    assert.equal(prefixOf("https://example.com/inbox/assets/abc/app.js"), "");
    assert.equal(prefixOf("https://example.com/tools/hp/inbox/assets/abc/app.js"), "/tools/hp");
});

test("the token of a sign-in link is read from the hash", () => {
    assert.equal(onceOf("#once=abc_-1"), "abc_-1");
    assert.equal(onceOf("#main"), null);
    assert.equal(onceOf(""), null);
});

function answering(status, body, headers = {}) {
    const requests = [];
    const fetch = async (url, request) => {
        requests.push({ url, ...request });
        return new Response(body === undefined ? null : JSON.stringify(body), { status, headers });
    };
    return { fetch, requests };
}

test("requests that change data have the header of the page, reads do not", async () => {
    const { fetch, requests } = answering(200, {});
    const api = createApi({ root: "/hp", fetch });
    await api.get("/v1/session");
    await api.decide("r/1", "n 1", { action: "accept" }, { digest: "sha256:1", interruptId: "r:i2", idempotencyKey: "k" });
    assert.equal(requests[0].headers["x-holdpoint-page"], undefined);
    assert.equal(requests[1].url, "/hp/v1/runs/r%2F1/interrupts/n%201");
    assert.equal(requests[1].headers["x-holdpoint-page"], "1");
    assert.equal(requests[1].headers["idempotency-key"], "k");
    assert.deepEqual(JSON.parse(requests[1].body), { resumeValue: { action: "accept" }, digest: "sha256:1", interruptId: "r:i2" });
});

test("every decision has its own idempotency key", async () => {
    const { fetch, requests } = answering(200, {});
    const api = createApi({ root: "", fetch });
    await api.decide("r", "n", {});
    await api.decide("r", "n", {});
    assert.match(requests[0].headers["idempotency-key"], /^[0-9a-f]{32}$/);
    assert.notEqual(requests[0].headers["idempotency-key"], requests[1].headers["idempotency-key"]);
    assert.notEqual(freshKey(), freshKey());
});

test("a problem has the code, the message and the details of the error", async () => {
    const { fetch } = answering(409, { error: "payload_mismatch", message: "changed", details: { field: "x" } });
    await assert.rejects(createApi({ root: "", fetch }).get("/v1/runs"), (problem) => {
        assert.ok(problem instanceof Problem);
        assert.deepEqual([problem.status, problem.code, problem.message, problem.details], [409, "payload_mismatch", "changed", { field: "x" }]);
        return true;
    });
});

test("a 401 is reported, except for quiet requests", async () => {
    const { fetch } = answering(401, { error: "unauthenticated", message: "no" });
    let reports = 0;
    const api = createApi({ root: "", fetch, isSignedOut: () => { reports += 1; } });
    await assert.rejects(api.get("/v1/runs"));
    await assert.rejects(api.get("/v1/session", { isQuiet: true }));
    assert.equal(reports, 1);
});

test("an unreachable server and a response without JSON are problems with a code", async () => {
    const lost = createApi({ root: "", fetch: async () => { throw new TypeError("network"); } });
    await assert.rejects(lost.get("/v1/runs"), { status: 0, code: "unreachable" });
    const proxy = createApi({ root: "", fetch: async () => new Response("<html>Bad gateway", { status: 502 }) });
    await assert.rejects(proxy.get("/v1/runs"), { status: 502, code: "http_502" });
});

test("the time of the server is used for deadlines", async () => {
    const { fetch } = answering(200, {}, { date: "Thu, 01 Jan 2026 00:10:00 GMT" });
    const api = createApi({ root: "", fetch, now: () => Date.UTC(2026, 0, 1) });
    await api.get("/v1/runs");
    assert.equal(api.now(), Date.UTC(2026, 0, 1, 0, 10));
});

test("parameters without a value are not in the query", () => {
    assert.equal(address("/hp/", "/v1/x", { a: "", b: null, c: undefined, d: ["x", "y"], e: [], f: 0 }), "/hp/v1/x?d=x%2Cy&f=0");
});

/** Returns fake timers and streams that the test controls. */
function world() {
    const sources = [];
    const timers = [];
    let time = 0;
    class EventSource {
        constructor(url) {
            Object.assign(this, { url, listeners: {}, isClosed: false });
            sources.push(this);
        }
        addEventListener(name, act) {
            this.listeners[name] = act;
        }
        close() {
            this.isClosed = true;
        }
        say(name, data) {
            this.listeners[name]({ data });
        }
    }
    const setTimeout = (act, ms) => timers.push({ act, at: time + ms }) - 1;
    const clearTimeout = (timer) => { timers[timer].act = null; };
    async function pass(ms) {
        const end = time + ms;
        await new Promise((done) => setImmediate(done));
        for (;;) {
            const due = timers.filter((timer) => timer.act && timer.at <= end).sort((one, other) => one.at - other.at)[0];
            if (!due) {
                break;
            }
            time = due.at;
            const { act } = due;
            due.act = null;
            act();
            await new Promise((done) => setImmediate(done));
        }
        time = end;
    }
    return { EventSource, setTimeout, clearTimeout, now: () => time, random: () => 1, sources, pass };
}

function watching(around, poll = async () => ({ total: 7 })) {
    const log = { received: [], live: [], polls: 0 };
    const live = watch({
        url: "/v1/interrupts/stream", received: (counts) => log.received.push(counts.total), changed: (how) => log.live.push(how),
        poll: () => { log.polls += 1; return poll(); },
    }, around);
    return { log, live };
}

test("counts of the stream are received, invalid data is ignored", () => {
    const around = world();
    const { log } = watching(around);
    around.sources[0].say("open");
    around.sources[0].say("counts", '{"total": 3}');
    around.sources[0].say("counts", "nonsense");
    assert.deepEqual(log.received, [3]);
    assert.deepEqual(log.live, ["live"]);
});

test("a stream that ends after a while is opened again without polling", async () => {
    const around = world();
    const { log } = watching(around);
    around.sources[0].say("open");
    await around.pass(600_000);
    around.sources[0].say("error");
    assert.equal(around.sources[0].isClosed, true);
    await around.pass(1000);
    assert.equal(around.sources.length, 2);
    assert.deepEqual(log.live, ["live"]);
    assert.equal(log.polls, 0);
});

test("the page polls without a stream, and stops when the stream is open", async () => {
    const around = world();
    const { log } = watching(around);
    around.sources[0].say("error");
    await around.pass(2000);
    around.sources[1].say("error");
    await around.pass(0);
    assert.deepEqual(log.live, ["polling"]);
    await around.pass(POLL_MS + 1);
    assert.ok(log.polls >= 2, `${log.polls}`);
    assert.deepEqual(log.received.slice(0, 2), [7, 7]);
    around.sources.at(-1).say("open");
    const before = log.polls;
    await around.pass(POLL_MS * 3);
    assert.equal(log.polls, before);
    assert.deepEqual([...new Set(log.live)], ["polling", "live"]);
});

test("a server that does not respond is reported as unreachable, a server without a stream is not", async () => {
    const refused = new Problem(429, "rate_limited", "slowly", undefined);
    const proxied = new Problem(502, "http_502", "The server answered 502.", undefined);
    for (const [problem, how] of [[new Problem(0, "unreachable", "", undefined), "away"], [proxied, "away"], [refused, "polling"]]) {
        const around = world();
        const { log } = watching(around, async () => { throw problem; });
        around.sources[0].say("error");
        await around.pass(2000);
        around.sources[1].say("error");
        await around.pass(0);
        assert.deepEqual([log.live, log.received], [[how], []], problem.code);
    }
});

test("the wait between attempts grows up to one minute", () => {
    assert.equal(waitBefore(0, () => 1), 1000);
    assert.equal(waitBefore(3, () => 0), 4000);
    assert.equal(waitBefore(50, () => 1), 60_000);
});

test("a closed list neither streams nor polls", async () => {
    const around = world();
    const { log, live } = watching(around);
    around.sources[0].say("error");
    live.close();
    await around.pass(600_000);
    assert.equal(around.sources.length, 1);
    assert.equal(log.polls, 0);
});

test("shortcuts are off while the user types or holds a modifier key", () => {
    const table = [{ key: "a", text: "Approve", act: () => {} }];
    const on = (target, more = {}) => keyFor({ key: "a", target, ...more }, table);
    assert.equal(on({ localName: "a" }), table[0]);
    assert.equal(on({ localName: "input", type: "checkbox" }), table[0]);
    for (const target of [{ localName: "input", type: "search" }, { localName: "textarea" }, { localName: "select" }, { localName: "div", isContentEditable: true }]) {
        assert.ok(isTyping(target));
        assert.equal(on(target), undefined);
    }
    for (const more of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }, { isComposing: true }, { defaultPrevented: true }]) {
        assert.equal(on({ localName: "body" }, more), undefined);
    }
});

test("the help lists each shortcut with its text", () => {
    const described = describeKeys([{ title: "Here", keys: [{ key: "j", text: "Next", act: () => {} }] }, { title: "Nothing", keys: [] }], texts.shell);
    assert.equal(described.length, 1);
    assert.equal(words(described[0]), "HerejNext");
});

test("the sample is started and its interrupt is found", async () => {
    const calls = [];
    const api = {
        post: async (path, body) => { calls.push([path, body]); return { runId: "r1" }; },
        get: async (path) => { calls.push([path]); return { interrupts: calls.length < 4 ? [] : [{ status: "open", nodeId: "review" }] }; },
    };
    const found = await startSample(api, {}, async () => {});
    assert.deepEqual(found, { runId: "r1", nodeId: "review" });
    assert.deepEqual(calls[0], ["/v1/runs", { workflowId: "sample-approval" }]);
    assert.deepEqual(calls[1], ["/v1/runs/r1/interrupts"]);
});

test("without the sample workflow a hold is created", async () => {
    const asked = [];
    const api = {
        async post(path) {
            asked.push(path);
            if (path === "/v1/runs") {
                throw new Problem(400, "validation_error", "no such workflow", { field: "workflowId" });
            }
            return { holdId: "h1" };
        },
        get: async () => ({ interrupts: [{ status: "open", nodeId: "hold" }] }),
    };
    assert.deepEqual(await startSample(api, {}, async () => {}), { runId: "h1", nodeId: "hold" });
    assert.deepEqual(asked, ["/v1/runs", "/v1/holds"]);
    const forbidden = { post: async () => { throw new Problem(403, "forbidden", "no", undefined); } };
    await assert.rejects(startSample(forbidden, {}), { status: 403 });
});

test("a caller that may not read runs does not get the first screen", async () => {
    assert.equal(await isNew({ get: async () => ({ runs: [] }) }), true);
    assert.equal(await isNew({ get: async () => ({ runs: [{}] }) }), false);
    assert.equal(await isNew({ get: async () => { throw new Problem(403, "forbidden", "no", undefined); } }), false);
});

test("the name of the principal stays text", () => {
    for (const payload of PAYLOADS) {
        const session = { principal: String(payload), tenant: String(payload), roles: [String(payload)], groups: [], scopes: [], sessionId: "s" };
        const bar = topBar({ session, shown: "interrupt", texts, href: (path) => path, list: "/inbox?q=x", showKeys() {}, signOut() {}, showSessions() {} });
        bar.filter(Boolean).forEach(assertInert);
    }
});

test("the page has no inline scripts or styles", () => {
    const page = readFileSync(new URL("../../../crates/holdpoint/src/inbox/page/index.html", import.meta.url), "utf8");
    assert.doesNotMatch(page, /<style|\sstyle=|\son[a-z]+=|javascript:|https?:\/\//);
    assert.match(page, /<script type="module" src="[^"]+"><\/script>/);
});

/** Opens a view as `principal` on a fake server where every list has a second page. */
async function opened(open, principal) {
    const cursors = [];
    const at = "2026-01-01T00:00:00Z";
    const one = { interruptId: "i1", nodeId: "n", kind: "approval", workflowId: "w", title: "One", status: "running", createdAt: at, requestedAt: at, assignees: [] };
    const get = async (path, { query }) => {
        if (["/v1/runs", "/v1/interrupts"].includes(path) && query.order !== "newest") {
            cursors.push(query.cursor ?? null);
        }
        const all = Array.from({ length: query?.cursor ? 1 : query?.limit ?? 0 }, (_, at) => ({ ...one, interruptId: `i${at}`, runId: query.cursor ? "r000" : `r${999 - at}` }));
        return { interrupts: all, runs: all, workflows: [], total: 1, byKind: {}, nextCursor: query?.cursor ? undefined : "second" };
    };
    const focused = { closest: () => ({ getAttribute: () => "i1" }) };
    const document = { activeElement: focused, querySelectorAll: () => [], addEventListener() {}, removeEventListener() {}, getElementById: () => null };
    const nothing = () => {};
    const view = await open({
        api: { get, address: (path) => path, now: () => 0 }, session: { principal, tenant: "t" }, params: {}, texts, document, paths,
        redraw: nothing, announce: nothing, remember: nothing, navigate: nothing, href: (path) => path, now: () => 0,
    });
    const press = async (name) => {
        await view.keys().find(({ key }) => key === name).act();
        await settled();
    };
    await settled();
    return { view, press, cursors };
}

const settled = () => new Promise((done) => setImmediate(done));

test("the position in a list belongs to the principal: another principal starts at the first page", async (t) => {
    globalThis.EventSource = class { addEventListener() {} close() {} };
    t.after(() => delete globalThis.EventSource);
    for (const open of [openList, openRuns]) {
        const ann = await opened(open, "ann");
        if (open === openList) {
            await ann.press("x");
            assert.match(words(ann.view.describe()), /1 selected/);
        }
        await ann.press("]");
        assert.equal(ann.cursors.at(-1), "second");
        ann.view.close();
        const again = await opened(open, "ann");
        again.view.close();
        assert.deepEqual(again.cursors, ["second"], "the same principal returns to the second page");
        const bob = await opened(open, "bob");
        assert.doesNotMatch(words(bob.view.describe()), /1 selected/);
        bob.view.close();
        assert.deepEqual(bob.cursors, [null], "another principal starts at the first page");
    }
});
