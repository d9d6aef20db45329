//! The timeline of a run: titles of events, durations of steps, pages of long logs, the state at an event.

import assert from "node:assert/strict";
import { test } from "node:test";
import { definitionOf } from "../../../crates/holdpoint/src/inbox/page/decide/store.js";
import { detail } from "../../../crates/holdpoint/src/inbox/page/timeline/detail.js";
import { events } from "../../../crates/holdpoint/src/inbox/page/timeline/events.js";
import { childInterrupts, head } from "../../../crates/holdpoint/src/inbox/page/timeline/head.js";
import {
    changesIn,
    filterEvents,
    PAGE,
    pageOf,
    categoryOf,
    titleOf,
    visitsOf,
    eventSummary,
} from "../../../crates/holdpoint/src/inbox/page/timeline/model.js";
import { snapshotAt } from "../../../crates/holdpoint/src/inbox/page/timeline/snapshots.js";
import { steps, durationText } from "../../../crates/holdpoint/src/inbox/page/timeline/steps.js";
import { assertInert, find, size, words } from "./descriptions.mjs";
import { PAYLOADS } from "./payloads.mjs";

const START = Date.parse("2026-01-01T12:00:00Z");
const at = (ms) => new Date(START + ms).toISOString();
const event = (sequence, type, ms = 0, more = {}) => ({ sequence, type, timestamp: at(ms), payload: {}, ...more });
const view = (more = {}) => ({
    filter: "all",
    nodeId: null,
    page: null,
    selected: null,
    names: new Map(),
    set: () => {},
    detail: () => null,
    ...more,
});

test("a workflow that cannot be drawn has a reason", async () => {
    const refusing = (status) => ({ get: async () => Promise.reject(Object.assign(new Error("no"), { status })) });
    const why = async (api, scopes) => (await definitionOf(api, "flow", scopes)).why;
    assert.match(await why(refusing(404)), /its agent decides/);
    assert.match(await why(refusing(403)), /manifest:read/);
    assert.match(await why(refusing(503)), /could not be loaded/);
    assert.match(await why({ get: () => assert.fail("the workflow is not requested") }, ["runs:read"]), /manifest:read/);
    assert.deepEqual(await definitionOf({ get: async (path) => ({ path }) }, "a/b", ["manifest:read"]), { workflow: { path: "/v1/workflows/a%2Fb" } });
});

test("a rejected run shows the step, the principal and the reason, and does not look failed", () => {
    const failed = (code) => ({
        runId: "r", workflowId: "w", status: "failed", startedAt: at(0), completedAt: at(1),
        error: { code, message: "the approval was rejected: Not now.", details: { failedNodeId: "gate" } },
    });
    const facts = {
        now: START, link: (id) => `/inbox/runs/${id}`, names: new Map([["gate", "Review"]]),
        interrupts: [{ nodeId: "gate", status: "answered", decision: { by: "ann", value: { action: "reject", feedback: "Not now." }, at: at(0) } }],
    };
    const shown = head(failed("approval_rejected"), facts);
    assert.match(words(shown), /^rejected.*Rejected at Review by ann just now\.Not now\.$/);
    assert.deepEqual([find(shown, "div", "notice-bad"), find(shown, "span", "chip-bad")], [[], []]);
    assert.match(words(head(failed("approval_rejected"), { ...facts, interrupts: [] })), /Rejected at Review\.the approval was rejected: Not now\.$/);
    const broken = head(failed("timeout"), facts);
    assert.match(words(broken), /^failed.*Failed at the step gate: timeout/);
    assert.equal(find(broken, "div", "notice-bad").length, 1);
});

test("events have a category", () => {
    const sorts = {
        "run.started": "run",
        "node.started": "node",
        "interrupt.requested": "decision",
        "holdpoint.vote.cast": "decision",
        "holdpoint.step.recorded": "effect",
        "agent.toolCalled": "effect",
        "variable.changed": "data",
        "of.tomorrow": "node",
    };
    Object.entries(sorts).forEach(([type, sort]) => assert.equal(categoryOf(type), sort));
    assert.equal(titleOf("of.tomorrow"), "of.tomorrow");
    assert.equal(eventSummary({ type: "holdpoint.vote.cast", payload: { decidedBy: "ann", action: "accept" } }), "ann: accept");
});

test("a visit ends with its node, and its waiting time is separate", () => {
    const node = { nodeId: "gate" };
    const log = [
        event(0, "node.started", 0, node),
        event(1, "node.suspended", 10, node),
        event(2, "node.resumed", 510, node),
        event(3, "node.completed", 520, node),
        event(4, "node.started", 600, node),
        event(5, "node.suspended", 610, node),
    ];
    const [first, second] = visitsOf(log);
    assert.deepEqual([first.status, first.end - first.start, first.waited_ms], ["completed", 520, 500]);
    assert.deepEqual([second.visit, second.status, second.end], [2, "suspended", null]);
});

test("a long log is shown in pages of constant size, starting with the last", () => {
    const log = Array.from({ length: 5000 }, (_, index) => event(index, "node.started", index, { nodeId: "n" }));
    assert.equal(pageOf(log, null).page, 100);
    assert.equal(pageOf(log, 1).entries[0].sequence, 0);
    assert.equal(pageOf(log, 1000).page, 100);
    const shown = events(log, view());
    assert.equal(find(shown, "li").length, PAGE);
    assert.ok(size(shown) < 2000);
});

test("events can be filtered by category and node", () => {
    const log = [
        event(0, "run.started"),
        event(1, "node.started", 0, { nodeId: "a" }),
        event(2, "node.started", 0, { nodeId: "b" }),
    ];
    assert.deepEqual(
        filterEvents(log, { filter: "node" }).map(({ sequence }) => sequence),
        [1, 2],
    );
    assert.deepEqual(
        filterEvents(log, { filter: "all", nodeId: "b" }).map(({ sequence }) => sequence),
        [2],
    );
});

test("short durations are shown in milliseconds", () => {
    assert.deepEqual([durationText(0), durationText(65), durationText(1500), durationText(90_000)], ["0 ms", "65 ms", "1 s", "1 min 30 s"]);
});

test("the changes of variables are read from the log", () => {
    const log = [
        event(0, "variable.changed", 0, { payload: { name: "x", next: 1 } }),
        event(1, "node.completed", 0, { payload: { outputs: { y: 2 } } }),
        event(2, "node.started"),
    ];
    assert.deepEqual(changesIn(log), [
        { sequence: 0, name: "x", value: 1 },
        { sequence: 1, name: "y", value: 2 },
    ]);
});

/** A fake stream that the test controls. */
class FakeSource {
    constructor(url) {
        this.url = url;
        this.listeners = {};
        this.isClosed = false;
        FakeSource.last = this;
    }
    addEventListener(name, act) {
        this.listeners[name] = act;
    }
    says(id, data) {
        this.listeners["state.snapshot"]({ lastEventId: String(id), data: JSON.stringify(data) });
    }
    close() {
        this.isClosed = true;
    }
}

function world() {
    const timers = [];
    return { EventSource: FakeSource, timers, setTimeout: (act) => timers.push(act), clearTimeout: () => {} };
}

test("the state at an event is the last snapshot before or at it, and the stream is closed then", async () => {
    const reading = snapshotAt("/x", 2, world());
    FakeSource.last.says(0, { variables: {} });
    FakeSource.last.says(2, { variables: { x: 1 } });
    const found = await reading.result;
    assert.deepEqual([found.atSequence, found.at.variables, found.before.variables], [2, { x: 1 }, {}]);
    assert.equal(FakeSource.last.isClosed, true);
});

test("an event without a snapshot shows an earlier one with a note", async () => {
    const reading = snapshotAt("/x", 3, world());
    FakeSource.last.says(2, { variables: { x: 1 }, status: "running" });
    FakeSource.last.says(4, { variables: { x: 9 } });
    const found = await reading.result;
    assert.equal(found.atSequence, 2);
    const log = [event(3, "variable.changed", 0, { payload: { name: "x", next: 5 } })];
    const shown = words(detail(log[0], { log, state: { isLoading: false, found }, fork: null }));
    assert.match(shown, /after event 2/);
    assert.match(shown, /Changed since then/);
});

test("the wait for a snapshot of an active run is bounded", async () => {
    const quiet = world();
    const reading = snapshotAt("/x", 3, quiet);
    FakeSource.last.says(2, { variables: {} });
    quiet.timers.at(-1)();
    assert.equal((await reading.result).atSequence, 2);
});

for (const payload of PAYLOADS) {
    test(`a payload stays text in every part of a timeline: ${JSON.stringify(payload)}`, () => {
        const types = ["run.failed", "node.started", "interrupt.requested", "holdpoint.ask.raised", "variable.changed", payload];
        const full = {
            owner: { principal: payload },
            error: { code: payload, message: payload },
            typeId: payload,
            data: { title: payload },
            askedBy: payload,
            question: payload,
            name: payload,
            next: payload,
        };
        const log = types.map((type, sequence) => event(sequence, type, sequence, { nodeId: payload, payload: full }));
        const run = {
            runId: payload,
            workflowId: payload,
            status: payload,
            startedAt: at(0),
            owner: { principal: payload },
            error: { code: payload, message: payload, details: { failedNodeId: payload } },
            tags: [payload],
            parentRunId: payload,
        };
        const found = {
            at: {
                status: payload,
                variables: { [payload]: payload },
                nodeStates: { [payload]: { status: payload } },
                currentNodeId: payload,
            },
            atSequence: 1,
            before: null,
        };
        const shown = [
            events(
                log,
                view({
                    selected: 1,
                    nodeId: payload,
                    detail: (entry) => detail(entry, { log, state: { isLoading: false, found }, fork: null }),
                }),
            ),
            head(run, { now: START, link: (id) => `/inbox/runs/${encodeURIComponent(id.replace(/\p{Cs}/gu, ""))}` }),
            steps(visitsOf([event(0, "node.started", 0, { nodeId: payload })]), {
                run,
                now: START,
                nodeId: payload,
                select: () => {},
                names: new Map([[payload, payload]]),
            }),
        ];
        shown.forEach(assertInert);
    });
}

test("a run links to the open interrupts of the runs below it, with the path from the run", () => {
    const step = (runId, nodeId) => ({ runId, workflowId: "w", nodeId });
    const open = {
        interruptId: "r.1.1:i1", kind: "approval", runId: "r.1.1", workflowId: "release", nodeId: "gate",
        path: [step("r", "call"), step("r.1", "inner")],
    };
    const href = ({ runId, nodeId, interruptId }) => `/${runId}/${nodeId}/${interruptId}`;
    const shown = childInterrupts({ childInterrupts: [open] }, href);
    assert.match(words(shown), /release: gate called by call › inner$/);
    assert.deepEqual(find(shown, "a").map(({ attrs }) => attrs.href), ["/r.1.1/gate/r.1.1:i1"]);
    assert.equal(childInterrupts({}, href), null);
    const many = Array.from({ length: 101 }, (_, n) => ({ ...open, interruptId: `r.1.1:i${n}` }));
    assert.match(words(childInterrupts({ childInterrupts: many }, href)), /and 1 more$/);
    for (const payload of PAYLOADS) {
        assertInert(childInterrupts({ childInterrupts: [{ ...open, nodeId: payload, workflowId: payload, path: [step("r", payload)] }] }, () => "/x"));
    }
});
