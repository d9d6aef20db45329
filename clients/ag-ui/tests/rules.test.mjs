//! Violations of the contract: the server changes no state, and the stream has the error. The clients prevent most of
//! these violations, so the inputs are sent without them.

import assert from "node:assert/strict";
import { Front, one, post, resume, withBoth } from "../harness/clients.mjs";
import { KEY, serving } from "../harness/server.mjs";

const server = serving();
const yes = { approved: true };

withBoth("a resume in another thread is rejected", async (client) => {
    const front = await asked(client, "approve");
    const other = await asked(client, "approve");
    const entries = resume(front.pending, [yes]);
    for (const threadId of ["an-unknown-thread", other.threadId]) {
        await assertRefused(client, "approve", { threadId, resume: entries }, "UNKNOWN_INTERRUPT_ID");
    }
    await assertStillOpen(front);
    await assertStillOpen(other);
});

withBoth("a resume must name an interrupt of the thread", async (client) => {
    const front = await asked(client, "approve");
    const [entry] = resume(front.pending, [yes]);
    for (const interruptId of ["int-abc123", entry.interruptId.replace(/.$/, "9"), ""]) {
        for (const entries of [[{ ...entry, interruptId }], [entry, { ...entry, interruptId }]]) {
            await assertRefused(client, "approve", { threadId: front.threadId, resume: entries }, "UNKNOWN_INTERRUPT_ID");
        }
    }
    await assertStillOpen(front);
});

withBoth("a resume that does not cover all open interrupts is rejected", async (client) => {
    const front = await asked(client, "parallel");
    const entries = resume(front.pending, [yes]);
    for (const part of [entries.slice(0, 1), entries.slice(1), [entries[2], entries[0]]]) {
        await assertRefused(client, "parallel", { threadId: front.threadId, resume: part }, "PARTIAL_RESUME");
    }
    const twice = [...entries, entries[0]];
    await assertRefused(client, "parallel", { threadId: front.threadId, resume: twice }, "DUPLICATE_INTERRUPT_ID");
    await assertStillOpen(front, 3);
    assert.equal((await front.answer(yes)).outcome, "success");
    assert.equal(front.state.executions, 3);
});

withBoth("one invalid entry rejects the whole resume", async (client) => {
    const front = await asked(client, "parallel");
    const entries = resume(front.pending, [yes, yes, { approved: "certainly" }]);
    await assertRefused(client, "parallel", { threadId: front.threadId, resume: entries }, "INVALID_PAYLOAD");
    await assertStillOpen(front, 3);
});

withBoth("an open interrupt blocks new input", async (client) => {
    const front = await asked(client, "approve");
    const messages = [{ id: "a-new-one", role: "user", content: "something else" }];
    for (const input of [{ messages }, { messages: [] }, { messages, resume: [] }]) {
        const refused = await assertRefused(client, "approve", { threadId: front.threadId, ...input }, "PENDING_INTERRUPTS");
        assert.ok(refused.error.message.includes(front.pending[0].id), "the error names the open interrupt");
    }
    const { messages: kept } = await assertStillOpen(front);
    assert.ok(!kept.some(({ id }) => id === "a-new-one"));
    assert.equal((await front.answer(yes)).outcome, "success");
});

withBoth("a missing or invalid answer is an error, and a valid answer can follow", async (client) => {
    const front = await asked(client, "approve");
    const [{ id: interruptId }] = front.pending;
    for (const payload of [{}, { approved: "yes" }, { approved: 1 }, "yes", [], undefined]) {
        const refused = await front.run({ resume: [{ interruptId, status: "resolved", payload }] });
        assert.equal(refused.error?.code, "INVALID_PAYLOAD", JSON.stringify(payload));
        assert.equal(front.pending.length, 1, "the client still has the interrupt");
    }
    await assertStillOpen(front);
    assert.equal((await front.answer(yes)).outcome, "success");
    assert.equal(front.state.executions, 1);
});

withBoth("a repeated answer is accepted and executed once", async (client) => {
    const front = await asked(client, "approve");
    const entries = resume(front.pending, [yes]);
    await front.run({ resume: entries });
    const { token } = front.results[0];
    for (const again of [entries, [{ payload: { approved: true }, status: "resolved", interruptId: entries[0].interruptId }]]) {
        const replayed = await front.run({ resume: again });
        assert.equal(replayed.outcome, "success");
        assert.equal(replayed.of("TOOL_CALL_RESULT").length, 0, "the result is not sent again");
        assert.deepEqual([front.state.executions, front.results.length, front.results[0].token], [1, 1, token]);
    }
});

withBoth("the answers of several interrupts can be repeated", async (client) => {
    const front = await asked(client, "parallel");
    const entries = resume(front.pending, [yes, yes, "cancel"]);
    await front.run({ resume: entries });
    const replayed = await front.run({ resume: entries });
    assert.deepEqual([replayed.outcome, front.state.executions], ["success", 2]);
});

withBoth("an answer of an earlier run of the thread can be repeated", async (client) => {
    const front = await asked(client, "approve");
    const entries = resume(front.pending, [yes]);
    await front.run({ resume: entries });
    await front.say("and once more");
    await front.answer(yes);
    const replayed = await front.run({ resume: entries });
    assert.deepEqual([replayed.outcome, front.state.executions], ["success", 2]);
});

withBoth("a different answer to an answered interrupt is an error", async (client) => {
    const front = await asked(client, "approve");
    const [entry] = resume(front.pending, [yes]);
    await front.run({ resume: [entry] });
    const others = [
        { ...entry, payload: { approved: false } },
        { ...entry, payload: { approved: true, editedArgs: {} } },
        { interruptId: entry.interruptId, status: "cancelled" },
    ];
    for (const other of others) {
        const refused = await front.run({ resume: [other] });
        assert.equal(refused.error?.code, "ALREADY_ANSWERED", JSON.stringify(other));
    }
    assert.equal((await server.thread("approve", front.threadId)).state.executions, 1);
});

withBoth("an invalid input is rejected before the stream starts", async (client) => {
    for (const input of [
        { threadId: "" },
        { threadId: "t", runId: "" },
        { threadId: "t", messages: "hello" },
        { threadId: "t", resume: [{ interruptId: "i" }] },
        { threadId: "t", resume: [{ interruptId: "i", status: "maybe" }] },
        { threadId: "t", resume: "all" },
    ]) {
        const { status } = await post(server, "approve", input, { client });
        assert.ok([400, 422].includes(status), `${status}: ${JSON.stringify(input)}`);
    }
});

withBoth("an invalid key and an unknown agent are rejected", async (client) => {
    const url = `${server.url}/ag-ui/approve`;
    const stranger = new client.HttpAgent({ url, headers: { Authorization: `Bearer ${KEY}no` } });
    await assert.rejects(stranger.runAgent(), /HTTP 401/);
    const lost = new client.HttpAgent({ url: `${server.url}/ag-ui/unknown`, headers: { Authorization: `Bearer ${KEY}` } });
    await assert.rejects(lost.runAgent(), /HTTP 404/);
});

withBoth("unknown members are ignored", async (client) => {
    const input = { threadId: `t-${client.name}`, messages: [{ id: "m", role: "user", content: "hi", mood: "good" }], novelty: {} };
    const received = await post(server, "echo", input, { client });
    assert.equal(received.outcome, "success");
});

one("optional members can be left out", async () => {
    const response = await fetch(`${server.url}/ag-ui/echo`, {
        method: "POST",
        headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" },
        body: JSON.stringify({ threadId: "t-short", runId: "r", messages: [{ id: "m", role: "user", content: "hi" }] }),
    });
    assert.match(await response.text(), /You said: hi/);
});

async function asked(client, agentId) {
    const front = new Front(server, client, agentId);
    const { outcome } = await front.say("please write to them");
    assert.equal(outcome, "interrupt");
    return front;
}

async function assertRefused(client, agentId, input, code) {
    const refused = await post(server, agentId, input, { client });
    assert.deepEqual(refused.types, ["RUN_STARTED", "RUN_ERROR"]);
    assert.equal(refused.error.code, code, refused.error.message);
    return refused;
}

async function assertStillOpen(front, count = 1) {
    const thread = await server.thread(front.agentId, front.threadId);
    assert.deepEqual(thread.interrupts.map(({ id }) => id), front.pending.map(({ id }) => id));
    assert.equal(thread.interrupts.length, count);
    assert.equal(thread.state.executions ?? 0, 0);
    return thread;
}
