//! Clients that disconnect, reconnect, or connect late. A run does not depend on a connection.

import assert from "node:assert/strict";
import { Front, modern, old, one, post, read, resume, withBoth } from "../harness/clients.mjs";
import { slow, slowTool } from "../harness/agents.mjs";
import { KEY, serving, until } from "../harness/server.mjs";

const server = serving({ agents: [slow, slowTool({ agentId: "slow-tool", idempotent: false, delayMs: 700 })] });
const words = "one two three four five six";

withBoth("a reply is streamed in pieces", async (client) => {
    const front = new Front(server, client, "slow");
    const { of, outcome } = await front.say("count");
    assert.equal(outcome, "success");
    assert.deepEqual(of("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), words);
    assert.ok(of("TEXT_MESSAGE_CONTENT").length >= 6, "the reply has several pieces");
    assert.deepEqual(front.texts, [words]);
});

withBoth("a client that disconnects does not stop the run", async (client) => {
    const front = new Front(server, client, "slow");
    await disconnectAtFirstPiece(front);
    const thread = await settled("slow", front.threadId);
    assert.deepEqual([thread.status, thread.messages.at(-1).content], ["completed", words]);
    const later = new Front(server, client, "slow", { threadId: front.threadId });
    assert.equal((await later.run()).outcome, "success");
    assert.deepEqual(later.texts, [words]);
});

withBoth("an active run can be joined, and is streamed from its start", async (client) => {
    const front = new Front(server, client, "slow");
    await disconnectAtFirstPiece(front);
    assert.equal((await server.thread("slow", front.threadId)).running, true);
    const joined = new Front(server, client, "slow", { threadId: front.threadId, messages: front.agent.messages.slice(0, 1) });
    const { of, outcome } = await joined.run();
    assert.equal(outcome, "success");
    assert.equal(of("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), words);
    assert.deepEqual(joined.texts, [words]);
    assert.equal(joined.messages.length, 2);
});

one("the stream of a thread can be read during the run and afterwards", async () => {
    const front = new Front(server, modern, "slow");
    await disconnectAtFirstPiece(front);
    const { runId } = await server.thread("slow", front.threadId);
    for (const text of [words, ""]) {
        const response = await fetch(`${server.url}/ag-ui/slow/threads/${front.threadId}/stream`, { headers: { Authorization: `Bearer ${KEY}` } });
        const received = await read(await response.text(), { threadId: front.threadId, runId }, old);
        assert.equal(received.outcome, "success");
        assert.equal(received.of("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), text);
        assert.equal(received.messages.at(-1).content, words);
    }
});

withBoth("an answer of a client that disconnects is executed once", async (client) => {
    const front = new Front(server, client, "slow-tool");
    await front.say("please write to them");
    const entries = resume(front.pending, [{ approved: true }]);
    const { threadId } = front;
    const aborted = front.agent.runAgent({ resume: entries }).catch(() => {});
    await until("the call has started", async () => (await server.thread("slow-tool", threadId)).interrupts.length === 0);
    front.agent.abortRun();
    await aborted;
    const again = await post(server, "slow-tool", { threadId, resume: entries }, { client });
    assert.deepEqual([again.outcome, again.state.executions], ["success", 1]);
    assert.equal(again.messages.filter(({ role }) => role === "tool").length, 1);
});

withBoth("a message that is sent during a run reaches the agent", async (client) => {
    const front = new Front(server, client, "slow");
    await disconnectAtFirstPiece(front);
    const other = await post(server, "slow", { threadId: front.threadId, messages: [{ id: "one-more", role: "user", content: "and again" }] }, { client });
    assert.equal(other.outcome, "success");
    const received = other.messages.map(({ role, id }) => (role === "user" ? id : role));
    assert.ok(received.includes("one-more"), received.join());
    assert.equal(new Set(other.messages.map(({ id }) => id)).size, other.messages.length);
});

/** Sends a message and disconnects at the first piece of the reply. */
async function disconnectAtFirstPiece(front) {
    front.agent.addMessage({ id: `said-in-${front.threadId}`, role: "user", content: "count" });
    await front.agent.runAgent({}, { onTextMessageContentEvent: () => front.agent.abortRun() }).catch(() => {});
}

function settled(agent, threadId) {
    return until("the run has ended", async () => {
        const thread = await server.thread(agent, threadId);
        return thread.running ? undefined : thread;
    });
}
