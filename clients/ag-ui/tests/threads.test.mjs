//! Threads with several clients: reloads, other devices, other versions, answers over other interfaces.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Front, clients, modern, old, one, post, resume, withBoth } from "../harness/clients.mjs";
import { serving, until } from "../harness/server.mjs";

const server = serving();
const yes = { approved: true };

withBoth("after a reload the thread has its messages, interrupts and state", async (client) => {
    const front = await asked(client, "parallel");
    const thread = await server.thread("parallel", front.threadId);
    assert.deepEqual(thread.interrupts, front.pending);
    assert.deepEqual(thread.messages, JSON.parse(JSON.stringify(front.messages)));
    assert.deepEqual(thread.state, front.state);
    assert.equal(thread.running, false);

    const reloaded = new Front(server, client, "parallel", { threadId: front.threadId, messages: thread.messages });
    const resumed = await reloaded.run({ resume: resume(thread.interrupts, [yes]) });
    assert.equal(resumed.outcome, "success");
    const after = await server.thread("parallel", front.threadId);
    assert.deepEqual([after.interrupts, after.state.executions], [[], 3]);
    assert.deepEqual(after.messages, JSON.parse(JSON.stringify(reloaded.messages)));
});

one("an unknown thread is not found", async () => {
    assert.equal((await server.request("GET", "/ag-ui/approve/threads/nowhere")).status, 404);
    // A front end joins its thread before the first message.
    const { status, body } = await server.request("GET", "/ag-ui/approve/threads/nowhere/stream");
    assert.deepEqual([status, body], [200, ""]);
});

withBoth("a client without messages can resume", async (client) => {
    const front = await asked(client, "approve");
    const forgetful = new Front(server, client, "approve", { threadId: front.threadId });
    const resumed = await forgetful.run({ resume: resume(front.pending, [yes]) });
    assert.deepEqual(forgetful.sent.messages, []);
    assert.equal(resumed.outcome, "success");
    assert.deepEqual(forgetful.messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
    assert.deepEqual([forgetful.state.executions, forgetful.results[0].status], [1, "sent"]);
});

withBoth("a client without messages can continue the thread", async (client) => {
    const front = new Front(server, client, "echo");
    await front.say("one");
    await front.say("two");
    const forgetful = new Front(server, client, "echo", { threadId: front.threadId });
    await forgetful.say("three");
    assert.deepEqual(forgetful.texts, ["You said: one", "You said: two", "You said: three"]);
    const half = new Front(server, client, "echo", { threadId: front.threadId, messages: forgetful.messages.slice(2) });
    await half.say("four");
    assert.deepEqual(half.texts, [...forgetful.texts, "You said: four"]);
});

for (const [first, second] of [[modern, old], [old, modern]]) {
    one(`client ${first.name} starts a thread and client ${second.name} continues it`, async () => {
        const front = await asked(first, "approve");
        const { threadId } = front;
        const other = new Front(server, second, "approve", { threadId, messages: front.messages });
        assert.equal((await other.run({ resume: resume(front.pending, [yes]) })).outcome, "success");
        assert.equal((await other.say("and once more")).outcome, "interrupt");
        const back = new Front(server, first, "approve", { threadId });
        const resumed = await back.run({ resume: resume(other.pending, [{ approved: false }]) });
        assert.deepEqual([resumed.outcome, back.state.executions], ["success", 1]);
        assert.equal(back.messages.length, 8);
    });
}

withBoth("four concurrent identical resumes are executed once", async (client) => {
    for (const agentId of ["approve", "parallel"]) {
        const front = await asked(client, agentId);
        const { threadId, pending } = front;
        const entries = resume(pending, [yes]);
        const fronts = [1, 2, 3, 4].map((n) => post(server, agentId, { threadId, runId: `${threadId}-${n}`, resume: entries }, { client }));
        const received = await Promise.all(fronts);
        assert.deepEqual(received.map(({ outcome, error }) => error?.code ?? outcome), Array(4).fill("success"));
        const thread = await server.thread(agentId, threadId);
        assert.equal(thread.state.executions, pending.length);
        for (const { state, messages } of received) {
            assert.deepEqual([state, messages], [thread.state, thread.messages], "all resumes end with the same state");
        }
        const tokens = thread.messages.filter(({ role }) => role === "tool").map(({ content }) => JSON.parse(content).token);
        assert.equal(new Set(tokens).size, pending.length);
        const executed = received.filter(({ of }) => of("TOOL_CALL_RESULT").length > 0);
        assert.equal(executed.length, 1, "one of them has the result");
    }
});

withBoth("one of several concurrent different answers is accepted", async (client) => {
    const { threadId, pending } = await asked(client, "approve");
    const answers = [yes, { approved: false }, yes, { approved: false }];
    const received = await Promise.all(answers.map((payload) => post(server, "approve", { threadId, resume: resume(pending, [payload]) }, { client })));
    const thread = await server.thread("approve", threadId);
    const won = thread.state.executions === 1;
    received.forEach(({ error, outcome }, at) => {
        if (answers[at].approved === won) assert.equal(outcome, "success");
        else assert.equal(error?.code, "ALREADY_ANSWERED");
    });
});

withBoth("a resume may have the run id of the interrupted run", async (client) => {
    const front = new Front(server, client, "approve");
    const runId = `run-${randomUUID()}`;
    await front.say("please write to them", { runId });
    const resumed = await front.run({ runId, resume: resume(front.pending, [yes]) });
    assert.deepEqual([resumed.outcome, front.state.executions], ["success", 1]);
    const again = await front.run({ runId, resume: resume([{ id: resumedId(front) }], [yes]) });
    assert.deepEqual([again.outcome, front.state.executions], ["success", 1]);
});

withBoth("an input that is sent twice is processed once", async (client) => {
    const threadId = `thread-${randomUUID()}`;
    const messages = [{ id: "only-once", role: "user", content: "hello" }];
    const first = await post(server, "echo", { threadId, messages }, { client });
    const second = await post(server, "echo", { threadId, messages }, { client });
    assert.deepEqual(second.messages, first.messages);
    assert.equal(second.outcome, "success");
});

withBoth("a decision over another interface appears in the next run", async (client) => {
    for (const decide of [byRun, byDecision]) {
        const front = await asked(client, "approve");
        await decide(front);
        await until("the run has continued", async () => {
            const { running, interrupts } = await server.thread("approve", front.threadId);
            return !running && interrupts.length === 0;
        });
        const reloaded = await server.thread("approve", front.threadId);
        assert.equal(reloaded.state.executions, 1);
        assert.equal(reloaded.messages.filter(({ role }) => role === "tool").length, 1);
        // This client still has the interrupt, and sends the same answer.
        const late = await front.answer(yes);
        assert.deepEqual([late.outcome, front.state.executions, front.results.length], ["success", 1, 1]);
        const next = await front.say("and once more");
        assert.equal(next.outcome, "interrupt");
        assert.equal(front.results[0].status, "sent");
    }
});

one("a different decision over another interface is an error for the late answer, and the thread continues", async () => {
    for (const client of clients) {
        const front = await asked(client, "approve");
        await byRun(front, "reject");
        const late = await front.answer(yes);
        assert.equal(late.error?.code, "ALREADY_ANSWERED");
        const reloaded = new Front(server, client, "approve", { threadId: front.threadId });
        assert.equal((await reloaded.run()).outcome, "success");
        assert.equal(reloaded.state.executions ?? 0, 0);
        assert.equal(reloaded.texts.at(-1), "Then I do not send it.");
    }
});

async function asked(client, agentId) {
    const front = new Front(server, client, agentId);
    assert.equal((await front.say("please write to them")).outcome, "interrupt");
    front.asked = front.pending.map(({ id }) => id);
    return front;
}

/** Returns the id of the interrupt of the first run. */
function resumedId(front) {
    return `${front.messages[1].id.split(":")[0]}:i1`;
}

async function byRun(front, action = "accept") {
    const [run, interrupt] = front.asked[0].split(":");
    const pending = (await server.request("GET", `/v1/interrupts?runId=${run}`)).body;
    assert.ok(JSON.stringify(pending).includes(interrupt), JSON.stringify(pending));
    const { nodeId } = front.pending[0].metadata.holdpoint;
    const { status, body } = await server.request("POST", `/v1/runs/${run}/interrupts/${encodeURIComponent(nodeId)}`, { resumeValue: { action } });
    assert.equal(status, 200, JSON.stringify(body));
}

async function byDecision(front) {
    const [run] = front.asked[0].split(":");
    const waiting = (await server.request("GET", `/v1/runs/${run}/waiting`)).body;
    const [{ toolCallId }] = waiting.tickets;
    const { status, body } = await server.request("POST", `/v1/runs/${run}/decision`, { toolCallId, action: "resume" });
    assert.equal(status, 202, JSON.stringify(body));
}
