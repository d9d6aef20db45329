//! Tool calls that need an approval: approved, denied, edited, cancelled, in parallel and one after the other.

import assert from "node:assert/strict";
import { Front, withBoth } from "../harness/clients.mjs";
import { serving } from "../harness/server.mjs";

const server = serving();
const original = { to: "old@example.test", subject: "original subject", body: "original body" };

withBoth("an agent without approvals replies and completes", async (client) => {
    const front = new Front(server, client, "echo");
    const { types, outcome } = await front.say("good morning");
    assert.equal(outcome, "success");
    assert.deepEqual(front.texts, ["You said: good morning"]);
    assert.ok(types.includes("TEXT_MESSAGE_CONTENT"));
    await front.say("and good night");
    assert.deepEqual(front.texts, ["You said: good morning", "You said: and good night"]);
});

withBoth("an approved call is executed with its original id", async (client) => {
    const front = new Front(server, client, "approve");
    const proposed = await front.say("please write to them");
    assert.equal(proposed.outcome, "interrupt");
    const [call] = proposed.of("TOOL_CALL_START");
    const given = proposed.of("TOOL_CALL_ARGS").map(({ delta }) => delta).join("");
    assert.deepEqual([call.toolCallName, JSON.parse(given)], ["sendEmail", original]);
    assert.equal(proposed.of("TOOL_CALL_RESULT").length, 0);

    const [interrupt] = front.pending;
    assert.deepEqual([interrupt.reason, interrupt.toolCallId], ["tool_call", call.toolCallId]);
    assert.ok(interrupt.message);
    const { properties, required } = interrupt.responseSchema;
    assert.deepEqual([properties.approved.type, required], ["boolean", ["approved"]]);
    assert.ok(!("editedArgs" in properties), "edits are not offered");

    const resumed = await front.answer({ approved: true });
    assert.equal(resumed.outcome, "success");
    assertNotProposedAgain(resumed);
    const [result, ...more] = resumed.of("TOOL_CALL_RESULT");
    assert.deepEqual([result.toolCallId, more], [call.toolCallId, []]);
    assert.equal(typeof result.content, "string");
    const [{ status, arguments: ran, token }] = front.results;
    assert.deepEqual([status, ran], ["sent", original]);
    assert.ok(token);
    assert.equal(front.state.executions, 1);
    assert.deepEqual(front.pending, []);
    assert.match(front.texts.at(-1), /^Sent: /);
});

withBoth("a denied call is not executed, and the run continues", async (client) => {
    const front = new Front(server, client, "approve");
    await front.say("please write to them");
    const [{ toolCallId }] = front.pending;
    const resumed = await front.answer({ approved: false, reason: "not to this customer" });
    assert.equal(resumed.outcome, "success");
    assertNotProposedAgain(resumed);
    assertNotExecuted(front, toolCallId);
    assert.equal(front.texts.at(-1), "Then I do not send it.");
});

withBoth("a cancelled call is not executed, and the run continues", async (client) => {
    const front = new Front(server, client, "approve");
    await front.say("please write to them");
    const [{ toolCallId }] = front.pending;
    const resumed = await front.answer("cancel");
    assert.equal(resumed.outcome, "success");
    assertNotExecuted(front, toolCallId);
});

withBoth("edited arguments replace all original arguments", async (client) => {
    const front = new Front(server, client, "edit");
    await front.say("please write to them");
    const [interrupt] = front.pending;
    assert.equal(interrupt.responseSchema.properties.editedArgs.type, "object");
    const editedArgs = { to: "new@example.test", subject: "new subject", body: "new body" };
    const resumed = await front.answer({ approved: true, editedArgs });
    assert.equal(resumed.outcome, "success");
    assertNotProposedAgain(resumed);
    assert.deepEqual(front.results[0].arguments, editedArgs);
    assert.equal(front.results[0].toolCallId, interrupt.toolCallId);
    assert.equal(front.state.executions, 1);
});

withBoth("edited arguments are not merged with the original ones", async (client) => {
    const front = new Front(server, client, "edit");
    await front.say("please write to them");
    await front.answer({ approved: true, editedArgs: { to: "new@example.test" } });
    // Subject and body are required: with merged arguments the mail would have been sent.
    assert.equal(front.state.executions ?? 0, 0);
    assert.deepEqual(front.results.filter(({ status }) => status === "sent"), []);
});

withBoth("an interrupt without edits rejects edited arguments", async (client) => {
    const front = new Front(server, client, "approve");
    await front.say("please write to them");
    const refused = await front.answer({ approved: true, editedArgs: { ...original, to: "mine@example.test" } });
    assert.equal(refused.error.code, "INVALID_PAYLOAD");
    assert.equal(front.pending.length, 1);
    assert.equal((await front.answer({ approved: true })).outcome, "success");
    assert.deepEqual(front.results[0].arguments, original);
});

withBoth("two of three calls are approved and one is cancelled in one resume", async (client) => {
    const front = new Front(server, client, "parallel");
    const proposed = await front.say("write to all of them");
    const calls = proposed.of("TOOL_CALL_START").map(({ toolCallId }) => toolCallId);
    assert.deepEqual(front.pending.map(({ toolCallId }) => toolCallId), calls);
    assert.equal(calls.length, 3);
    const resumed = await front.answer({ approved: true }, { approved: true }, "cancel");
    assert.equal(resumed.outcome, "success");
    assertNotProposedAgain(resumed);
    const sent = front.results.filter(({ status }) => status === "sent");
    assert.deepEqual(sent.map(({ toolCallId }) => toolCallId).sort(), calls.slice(0, 2).sort());
    assert.deepEqual(sent.map((result) => result.arguments.to).sort(), ["x@y.test", "y@z.test"]);
    assert.equal(new Set(sent.map(({ token }) => token)).size, 2);
    assert.equal(front.state.executions, 2);
});

withBoth("the next interrupt opens in the resumed run", async (client) => {
    const front = new Front(server, client, "chain");
    await front.say("both of them");
    const first = front.pending[0];
    const between = await front.answer({ approved: true });
    assert.equal(between.outcome, "interrupt");
    const second = front.pending[0];
    assert.notEqual(second.id, first.id);
    assert.deepEqual(between.of("TOOL_CALL_START").map(({ toolCallId }) => toolCallId), [second.toolCallId]);
    assert.equal(front.state.executions, 1);
    assert.equal((await front.answer({ approved: true })).outcome, "success");
    assert.equal(front.state.executions, 2);
    assert.deepEqual(front.results.map((result) => result.arguments.subject), ["first mail", "second mail"]);
});

withBoth("a thread continues after a decision and keeps its state", async (client) => {
    const front = new Front(server, client, "approve");
    for (const times of [1, 2]) {
        await front.say("please write to them");
        await front.answer({ approved: true });
        assert.equal(front.state.executions, times);
        assert.equal(front.results.length, times);
    }
    assert.deepEqual(front.messages.map(({ role }) => role), [
        "user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant",
    ]);
});

function assertNotProposedAgain({ types }) {
    const repeated = types.filter((type) => ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"].includes(type));
    assert.deepEqual(repeated, []);
}

function assertNotExecuted(front, toolCallId) {
    assert.equal(front.state.executions ?? 0, 0);
    const results = front.results.filter((result) => result.toolCallId === toolCallId);
    assert.ok(results.every(({ status, token }) => status !== "sent" && token === undefined));
}
