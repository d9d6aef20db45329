//! Words beside answers, and words of a second tab: they are heard, and both tabs end with the thread in its order.

import assert from "node:assert/strict";
import { Front, resume, withBoth } from "../harness/clients.mjs";
import { serving, until } from "../harness/server.mjs";
import { slowTool } from "../harness/agents.mjs";

const slow = { ...slowTool({ agentId: "slow-mail", idempotent: true }), permissions: { default: "allow" } };
const server = serving({ agents: [slow] });

withBoth("a second tab speaks to a run at work, and both tabs show the thread in its order", async (client) => {
    const first = new Front(server, client, "slow-mail");
    const { threadId } = first;
    const told = first.say("from the first tab");
    await until("the run is at work", async () => {
        const { status, body } = await server.request("GET", `/ag-ui/slow-mail/threads/${threadId}`);
        return status === 200 && body.running && body.messages.length === 2;
    });
    const second = new Front(server, client, "slow-mail", { threadId });
    const [one, two] = await Promise.all([told, second.say("from the second tab")]);
    assert.deepEqual([one.outcome, two.outcome], ["success", "success"]);
    const { messages } = await server.thread("slow-mail", threadId);
    const roles = messages.map(({ role }) => role);
    assert.deepEqual([roles.slice(0, 3), roles.at(-2)], [["user", "assistant", "tool"], "user"]);
    const order = messages.map(({ id }) => id);
    assert.deepEqual(first.messages.map(({ id }) => id), order, "the first tab");
    assert.deepEqual(second.messages.map(({ id }) => id), order, "the second tab");
});

withBoth("words beside cancelled interrupts are heard at once, and words beside answers behind them", async (client) => {
    for (const [payload, reply, executions] of [["cancel", "Then I do not send it.", 0], [{ approved: true }, "Sent: ", 1]]) {
        const front = new Front(server, client, "approve");
        await front.say("please write to them");
        front.agent.addMessage({ id: `beside-${front.threadId}`, role: "user", content: "and tell me the time" });
        const told = await front.run({ resume: resume(front.pending, [payload]) });
        assert.equal(told.outcome, "success");
        assert.deepEqual(told.of("CUSTOM"), []);
        assert.deepEqual(front.messages.map(({ role }) => role), ["user", "assistant", "tool", "user", "assistant"]);
        assert.ok(front.texts.at(-1).startsWith(reply), front.texts.at(-1));
        assert.equal(front.state.executions, executions);
    }
});
