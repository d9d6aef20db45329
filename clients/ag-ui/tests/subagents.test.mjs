//! Interrupts of child runs: the agent `nested` calls an agent and a workflow that calls another workflow; both wait.

import assert from "node:assert/strict";
import { Front, modern, one, withBoth } from "../harness/clients.mjs";
import { serving } from "../harness/server.mjs";

const server = serving();
const yes = { approved: true };

withBoth("interrupts of both child runs are answered in one resume", async (client) => {
    const front = new Front(server, client, "nested");
    const { outcome } = await front.say("release it");
    assert.equal(outcome, "interrupt");
    assert.deepEqual(front.pending.map(({ reason }) => reason).sort(), ["confirmation", "tool_call"]);
    assert.ok(front.pending.every(({ subagentRunId }) => subagentRunId));
    const resumed = await front.answer(yes, yes);
    assert.equal(resumed.outcome, "success");
    assert.equal(resumed.of("TOOL_CALL_RESULT").length, 2);
    assert.equal(front.results.length, 2);
    assert.equal(front.texts.at(-1), "Both have ended.");
    assert.deepEqual(front.pending, []);
});

withBoth("nested interrupts survive a crash of the server", async (client) => {
    const front = new Front(server, client, "nested");
    await front.say("release it");
    const before = await server.thread("nested", front.threadId);
    await server.restart();
    assert.deepEqual(await server.thread("nested", front.threadId), before);
    assert.equal((await front.answer(yes, yes)).outcome, "success");
});

one("subagents wait with the interrupts of the runs below them (client 1.0.0)", async () => {
    const front = new Front(server, modern, "nested");
    const asked = await front.say("release it");
    const started = asked.of("SUBAGENT_STARTED");
    assert.deepEqual(started.map(({ name }) => name).sort(), ["agent:approve", "demo-release", "sample-approval"]);
    for (const { id, subagentRunId } of front.pending) {
        const end = asked.of("SUBAGENT_FINISHED").find((event) => event.subagentRunId === subagentRunId);
        assert.deepEqual(end.outcome, { type: "suspended", interruptIds: [id] });
    }
    const resumed = await front.answer("cancel", "cancel");
    assert.equal(resumed.outcome, "success");
    const ids = (events, ...kinds) => kinds.flatMap((kind) => events.of(kind).map(({ subagentRunId }) => subagentRunId)).sort();
    const all = ids(asked, "SUBAGENT_STARTED");
    assert.deepEqual(ids(asked, "SUBAGENT_FINISHED"), all);
    assert.deepEqual(ids(resumed, "SUBAGENT_STARTED"), all, "the same subagents continue");
    assert.deepEqual(ids(resumed, "SUBAGENT_FINISHED", "SUBAGENT_ERROR"), all, "each of them ends once");
});
