//! A server that is killed with -9: between a question and its answer, and while an answer is carried out.

import assert from "node:assert/strict";
import { Front, post, resume, withBoth } from "../harness/clients.mjs";
import { slowTool } from "../harness/agents.mjs";
import { serving, until } from "../harness/server.mjs";

const server = serving({
    agents: [slowTool({ agentId: "repeatable", idempotent: true }), slowTool({ agentId: "once-only", idempotent: false })],
});
const yes = { approved: true };

withBoth("a question survives the death of the server, and still blocks new input", async (client) => {
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

withBoth("an answer survives the death of the server, and is not carried out again", async (client) => {
    const front = new Front(server, client, "approve");
    await front.say("please write to them");
    const entries = resume(front.pending, [yes]);
    await front.run({ resume: entries });
    const [{ token }] = front.results;
    await server.restart();
    const again = await front.run({ resume: entries });
    assert.deepEqual([again.outcome, front.state.executions, front.results[0].token], ["success", 1, token]);
});

withBoth("a call that may be repeated is carried out after the server died in the middle of it", async (client) => {
    const { threadId, entries } = await killedInTheMiddle(client, "repeatable");
    const front = new Front(server, client, "repeatable", { threadId });
    const resumed = await front.run({ resume: entries });
    assert.deepEqual([resumed.outcome, front.state.executions, front.results.length], ["success", 1, 1]);
    assert.equal(front.results[0].status, "sent");
});

withBoth("a call that may not be repeated becomes a question when the server died in the middle of it", async (client) => {
    const { threadId, entries } = await killedInTheMiddle(client, "once-only");
    const front = new Front(server, client, "once-only", { threadId });
    const resumed = await front.run({ resume: entries });
    assert.equal(resumed.outcome, "interrupt", "the answer is recorded; what came of it nobody knows");
    const [ask] = front.pending;
    assert.equal(ask.reason, "holdpoint:outcome_unknown");
    assert.notEqual(ask.id, entries[0].interruptId);
    assert.ok(ask.toolCallId && ask.responseSchema);
    assert.equal(front.state.executions ?? 0, 0);
    const told = await front.answer({ approved: true, result: { status: "sent", by: "the outbox says so" } });
    assert.equal(told.outcome, "success");
    assert.deepEqual(front.results.map(({ by }) => by), ["the outbox says so"]);
    assert.equal(front.state.executions ?? 0, 0, "it was not made again");
});

/** Allows a call, and kills the server while it is under way. */
async function killedInTheMiddle(client, agentId) {
    const front = new Front(server, client, agentId);
    await front.say("please write to them");
    const { threadId } = front;
    const entries = resume(front.pending, [yes]);
    const run = entries[0].interruptId.split(":")[0];
    const broken = post(server, agentId, { threadId, resume: entries }, { client }).catch(() => "nobody there any more");
    // That a call has begun is only recorded where it may not be repeated.
    const sign = agentId === "once-only" ? "holdpoint.tool.begun" : "node.resumed";
    await until("the call has begun", async () => {
        const { body } = await server.request("GET", `/v1/runs/${run}/events/poll`);
        return body.events.some(({ type }) => type === sign);
    });
    await server.restart();
    assert.equal(await broken, "nobody there any more");
    return { threadId, entries };
}
