//! Messages that are sent with answers, and messages of a second tab: the agent gets them, and both tabs have the
//! order of the thread.

import assert from "node:assert/strict";
import { Front, resume, withBoth } from "../harness/clients.mjs";
import { serving, until } from "../harness/server.mjs";
import { slowTool } from "../harness/agents.mjs";

const slow = { ...slowTool({ agentId: "slow-mail", idempotent: true }), permissions: { default: "allow" } };
const server = serving({ agents: [slow] });

withBoth("a second tab sends a message to an active run, and both tabs show the order of the thread", async (client) => {
    const first = new Front(server, client, "slow-mail");
    const { threadId } = first;
    const pending = first.say("from the first tab");
    await until("the run is active", async () => {
        const { status, body } = await server.request("GET", `/ag-ui/slow-mail/threads/${threadId}`);
        return status === 200 && body.running && body.messages.length === 2;
    });
    const second = new Front(server, client, "slow-mail", { threadId });
    const [one, two] = await Promise.all([pending, second.say("from the second tab")]);
    assert.deepEqual([one.outcome, two.outcome], ["success", "success"]);
    const { messages } = await server.thread("slow-mail", threadId);
    const roles = messages.map(({ role }) => role);
    assert.deepEqual([roles.slice(0, 3), roles.at(-2)], [["user", "assistant", "tool"], "user"]);
    const order = messages.map(({ id }) => id);
    assert.deepEqual(first.messages.map(({ id }) => id), order, "the first tab");
    assert.deepEqual(second.messages.map(({ id }) => id), order, "the second tab");
});

withBoth("a message with cancelled interrupts or with answers follows their results", async (client) => {
    for (const [payload, reply, executions] of [["cancel", "Then I do not send it.", 0], [{ approved: true }, "Sent: ", 1]]) {
        const front = new Front(server, client, "approve");
        await front.say("please write to them");
        front.agent.addMessage({ id: `beside-${front.threadId}`, role: "user", content: "and tell me the time" });
        const resumed = await front.run({ resume: resume(front.pending, [payload]) });
        assert.equal(resumed.outcome, "success");
        assert.deepEqual(resumed.of("CUSTOM"), []);
        assert.deepEqual(front.messages.map(({ role }) => role), ["user", "assistant", "tool", "user", "assistant"]);
        assert.ok(front.texts.at(-1).startsWith(reply), front.texts.at(-1));
        assert.equal(front.state.executions, executions);
    }
});
