//! Clients that hang up, come back, or come late. A run is nobody's connection.

import assert from "node:assert/strict";
import { Front, modern, old, one, post, read, resume, withBoth } from "../harness/clients.mjs";
import { slow, slowTool } from "../harness/agents.mjs";
import { KEY, serving, until } from "../harness/server.mjs";

const server = serving({ agents: [slow, slowTool({ agentId: "slow-tool", idempotent: false, delayMs: 700 })] });
const words = "one two three four five six";

withBoth("words come one by one, as they are said", async (client) => {
    const front = new Front(server, client, "slow");
    const { of, outcome } = await front.say("count");
    assert.equal(outcome, "success");
    assert.deepEqual(of("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), words);
    assert.ok(of("TEXT_MESSAGE_CONTENT").length >= 6, "in more than one piece");
    assert.deepEqual(front.texts, [words]);
});

withBoth("a client that hangs up does not stop the run", async (client) => {
    const front = new Front(server, client, "slow");
    await hangUpAtFirstWord(front);
    const thread = await settled("slow", front.threadId);
    assert.deepEqual([thread.status, thread.messages.at(-1).content], ["completed", words]);
    const later = new Front(server, client, "slow", { threadId: front.threadId });
    assert.equal((await later.run()).outcome, "success");
    assert.deepEqual(later.texts, [words]);
});

withBoth("a run at work can be joined, and is told from its beginning", async (client) => {
    const front = new Front(server, client, "slow");
    await hangUpAtFirstWord(front);
    assert.equal((await server.thread("slow", front.threadId)).running, true);
    const joined = new Front(server, client, "slow", { threadId: front.threadId, messages: front.agent.messages.slice(0, 1) });
    const { of, outcome } = await joined.run();
    assert.equal(outcome, "success");
    assert.equal(of("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), words);
    assert.deepEqual(joined.texts, [words]);
    assert.equal(joined.messages.length, 2);
});

one("the stream of a thread can be read while it runs and afterwards", async () => {
    const front = new Front(server, modern, "slow");
    await hangUpAtFirstWord(front);
    const { runId } = await server.thread("slow", front.threadId);
    for (const told of [words, ""]) {
        const response = await fetch(`${server.url}/ag-ui/slow/threads/${front.threadId}/stream`, { headers: { Authorization: `Bearer ${KEY}` } });
        const heard = await read(await response.text(), { threadId: front.threadId, runId }, old);
        assert.equal(heard.outcome, "success");
        assert.equal(heard.of("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), told);
        assert.equal(heard.messages.at(-1).content, words);
    }
});

withBoth("a client that hangs up in the middle of its answer finds it carried out, once", async (client) => {
    const front = new Front(server, client, "slow-tool");
    await front.say("please write to them");
    const entries = resume(front.pending, [{ approved: true }]);
    const { threadId } = front;
    const aborted = front.agent.runAgent({ resume: entries }).catch(() => {});
    await until("the call is under way", async () => (await server.thread("slow-tool", threadId)).interrupts.length === 0);
    front.agent.abortRun();
    await aborted;
    const again = await post(server, "slow-tool", { threadId, resume: entries }, { client });
    assert.deepEqual([again.outcome, again.state.executions], ["success", 1]);
    assert.equal(again.messages.filter(({ role }) => role === "tool").length, 1);
});

withBoth("what is said while a run is at work is heard", async (client) => {
    const front = new Front(server, client, "slow");
    await hangUpAtFirstWord(front);
    const other = await post(server, "slow", { threadId: front.threadId, messages: [{ id: "one-more", role: "user", content: "and again" }] }, { client });
    assert.equal(other.outcome, "success");
    const said = other.messages.map(({ role, id }) => (role === "user" ? id : role));
    assert.ok(said.includes("one-more"), said.join());
    assert.equal(new Set(other.messages.map(({ id }) => id)).size, other.messages.length);
});

/** Talks to the agent and leaves while it speaks. */
async function hangUpAtFirstWord(front) {
    front.agent.addMessage({ id: `said-in-${front.threadId}`, role: "user", content: "count" });
    await front.agent.runAgent({}, { onTextMessageContentEvent: () => front.agent.abortRun() }).catch(() => {});
}

function settled(agent, threadId) {
    return until("the run has ended", async () => {
        const thread = await server.thread(agent, threadId);
        return thread.running ? undefined : thread;
    });
}
