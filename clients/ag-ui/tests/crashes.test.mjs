//! A server that is killed: between an interrupt and its answer, and while an answer is executed.

import assert from "node:assert/strict";
import { Front, post, resume, withBoth } from "../harness/clients.mjs";
import { slowTool } from "../harness/agents.mjs";
import { serving, until } from "../harness/server.mjs";

const server = serving({
    agents: [slowTool({ agentId: "repeatable", idempotent: true }), slowTool({ agentId: "once-only", idempotent: false })],
});
const yes = { approved: true };

withBoth("an interrupt survives a crash of the server and still blocks new input", async (client) => {
    const front = new Front(server, client, "parallel");
    await front.say("please write to them");
    const before = await server.thread("parallel", front.threadId);
    await server.restart();
    assert.deepEqual(await server.thread("parallel", front.threadId), before);
    const blocked = await post(server, "parallel", { threadId: front.threadId, messages: [{ id: "new", role: "user", content: "hey" }] }, { client });
    assert.equal(blocked.error?.code, "PENDING_INTERRUPTS");
    assert.equal((await front.answer(yes, yes, "cancel")).outcome, "success");
    assert.equal(front.state.executions, 2);
});

withBoth("an answer survives a crash of the server and is not executed again", async (client) => {
    const front = new Front(server, client, "approve");
    await front.say("please write to them");
    const entries = resume(front.pending, [yes]);
    await front.run({ resume: entries });
    const [{ token }] = front.results;
    await server.restart();
    const again = await front.run({ resume: entries });
    assert.deepEqual([again.outcome, front.state.executions, front.results[0].token], ["success", 1, token]);
});

withBoth("an idempotent call is repeated after a crash during the call", async (client) => {
    const { threadId, entries } = await killDuringCall(client, "repeatable");
    const front = new Front(server, client, "repeatable", { threadId });
    const resumed = await front.run({ resume: entries });
    assert.deepEqual([resumed.outcome, front.state.executions, front.results.length], ["success", 1, 1]);
    assert.equal(front.results[0].status, "sent");
});

withBoth("a call that is not idempotent opens an interrupt after a crash during the call", async (client) => {
    const { threadId, entries } = await killDuringCall(client, "once-only");
    const front = new Front(server, client, "once-only", { threadId });
    const resumed = await front.run({ resume: entries });
    assert.equal(resumed.outcome, "interrupt", "the answer is recorded, the outcome of the call is unknown");
    const [ask] = front.pending;
    assert.equal(ask.reason, "holdpoint:outcome_unknown");
    assert.notEqual(ask.id, entries[0].interruptId);
    assert.ok(ask.toolCallId && ask.responseSchema);
    assert.equal(front.state.executions ?? 0, 0);
    const resolved = await front.answer({ approved: true, result: { status: "sent", by: "the outbox says so" } });
    assert.equal(resolved.outcome, "success");
    assert.deepEqual(front.results.map(({ by }) => by), ["the outbox says so"]);
    assert.equal(front.state.executions ?? 0, 0, "the call was not repeated");
});

/** Approves a call, and kills the server during the call. */
async function killDuringCall(client, agentId) {
    const front = new Front(server, client, agentId);
    await front.say("please write to them");
    const { threadId } = front;
    const entries = resume(front.pending, [yes]);
    const run = entries[0].interruptId.split(":")[0];
    const broken = post(server, agentId, { threadId, resume: entries }, { client }).catch(() => "connection lost");
    // The start of a call is recorded only if the call is not idempotent.
    const sign = agentId === "once-only" ? "holdpoint.tool.begun" : "node.resumed";
    await until("the call has started", async () => {
        const { body } = await server.request("GET", `/v1/runs/${run}/events/poll`);
        return body.events.some(({ type }) => type === sign);
    });
    await server.restart();
    assert.equal(await broken, "connection lost");
    return { threadId, entries };
}
