//! The rules of the contract, from the side of those who break them: nothing is done, nothing is used up, and the stream
//! says why. The client keeps most of these rules itself, so that the inputs are sent without it.

import assert from "node:assert/strict";
import { Front, one, post, resume, withBoth } from "../harness/clients.mjs";
import { KEY, serving } from "../harness/server.mjs";

const server = serving();
const yes = { approved: true };

withBoth("a resume in another thread finds nothing there", async (client) => {
    const front = await asked(client, "approve");
    const other = await asked(client, "approve");
    const entries = resume(front.pending, [yes]);
    for (const threadId of ["a thread that nobody began", other.threadId]) {
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

withBoth("a resume covers everything that is open, or nothing is done", async (client) => {
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

withBoth("one bad entry refuses all of them", async (client) => {
    const front = await asked(client, "parallel");
    const entries = resume(front.pending, [yes, yes, { approved: "certainly" }]);
    await assertRefused(client, "parallel", { threadId: front.threadId, resume: entries }, "INVALID_PAYLOAD");
    await assertStillOpen(front, 3);
});

withBoth("what is open blocks new input", async (client) => {
    const front = await asked(client, "approve");
    const messages = [{ id: "a-new-one", role: "user", content: "something else" }];
    for (const input of [{ messages }, { messages: [] }, { messages, resume: [] }]) {
        const refused = await assertRefused(client, "approve", { threadId: front.threadId, ...input }, "PENDING_INTERRUPTS");
        assert.ok(refused.error.message.includes(front.pending[0].id), "the error names what is open");
    }
    const { messages: kept } = await assertStillOpen(front);
    assert.ok(!kept.some(({ id }) => id === "a-new-one"));
    assert.equal((await front.answer(yes)).outcome, "success");
});

withBoth("an answer that is missing or does not fit is an error, and can be given again", async (client) => {
    const front = await asked(client, "approve");
    const [{ id: interruptId }] = front.pending;
    for (const payload of [{}, { approved: "yes" }, { approved: 1 }, "yes", [], undefined]) {
        const refused = await front.run({ resume: [{ interruptId, status: "resolved", payload }] });
        assert.equal(refused.error?.code, "INVALID_PAYLOAD", JSON.stringify(payload));
        assert.equal(front.pending.length, 1, "the client still has it");
    }
    await assertStillOpen(front);
    assert.equal((await front.answer(yes)).outcome, "success");
    assert.equal(front.state.executions, 1);
});

withBoth("an answer that was given can be sent again, and nothing is done twice", async (client) => {
    const front = await asked(client, "approve");
    const entries = resume(front.pending, [yes]);
    await front.run({ resume: entries });
    const { token } = front.results[0];
    for (const again of [entries, [{ payload: { approved: true }, status: "resolved", interruptId: entries[0].interruptId }]]) {
        const replayed = await front.run({ resume: again });
        assert.equal(replayed.outcome, "success");
        assert.equal(replayed.of("TOOL_CALL_RESULT").length, 0, "it is not told a second time");
        assert.deepEqual([front.state.executions, front.results.length, front.results[0].token], [1, 1, token]);
    }
});

withBoth("all answers of several interrupts can be sent again", async (client) => {
    const front = await asked(client, "parallel");
    const entries = resume(front.pending, [yes, yes, "cancel"]);
    await front.run({ resume: entries });
    const replayed = await front.run({ resume: entries });
    assert.deepEqual([replayed.outcome, front.state.executions], ["success", 2]);
});

withBoth("an answer that was given in an earlier run of the thread can be sent again", async (client) => {
    const front = await asked(client, "approve");
    const entries = resume(front.pending, [yes]);
    await front.run({ resume: entries });
    await front.say("and once more");
    await front.answer(yes);
    const replayed = await front.run({ resume: entries });
    assert.deepEqual([replayed.outcome, front.state.executions], ["success", 2]);
});

withBoth("another answer to what was answered is an error", async (client) => {
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

withBoth("what cannot be meant is refused before there is a stream", async (client) => {
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

withBoth("a client is told when its key does not fit or there is no such agent", async (client) => {
    const url = `${server.url}/ag-ui/approve`;
    const stranger = new client.HttpAgent({ url, headers: { Authorization: `Bearer ${KEY}no` } });
    await assert.rejects(stranger.runAgent(), /HTTP 401/);
    const lost = new client.HttpAgent({ url: `${server.url}/ag-ui/nobody`, headers: { Authorization: `Bearer ${KEY}` } });
    await assert.rejects(lost.runAgent(), /HTTP 404/);
});

withBoth("members that nobody here knows are tolerated", async (client) => {
    const input = { threadId: `t-${client.name}`, messages: [{ id: "m", role: "user", content: "hi", mood: "good" }], parentRunId: "p", novelty: {} };
    const heard = await post(server, "echo", input, { client });
    assert.equal(heard.outcome, "success");
});

one("only what is required must be there", async () => {
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
