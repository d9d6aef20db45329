//! Client tools: their calls end a run, and their results start the next one.

import assert from "node:assert/strict";
import { Front, withBoth } from "../harness/clients.mjs";
import { pickColor, picker } from "../harness/agents.mjs";
import { serving } from "../harness/server.mjs";

const server = serving({ agents: [picker] });
const tools = [pickColor];

withBoth("a call of a client tool ends the run with success, and its result reaches the next run", async (client) => {
    const front = new Front(server, client, "picker");
    const { finish, outcome, of } = await front.say("a color, please", { tools });
    assert.equal(outcome, "success", "it is not an interrupt");
    const [{ toolCallId, toolCallName }] = of("TOOL_CALL_START");
    assert.equal(toolCallName, "pickColor");
    assert.deepEqual(finish.outcome, client.modern ? { type: "success", pendingToolCallIds: [toolCallId] } : { type: "success" });
    assert.deepEqual(front.pending ?? [], []);
    assert.deepEqual((await server.thread("picker", front.threadId)).pendingToolCallIds, [toolCallId]);

    front.agent.addMessage({ id: `result-of-${toolCallId}`, role: "tool", toolCallId, content: "blue" });
    const next = await front.run({ tools });
    assert.equal(next.outcome, "success");
    assert.deepEqual(next.of("TOOL_CALL_START"), []);
    assert.match(front.texts.at(-1), /^You picked .*blue/);
    assert.equal(front.results.length, 1);
    assert.deepEqual((await server.thread("picker", front.threadId)).pendingToolCallIds, []);
});

withBoth("a call without a result is withdrawn by the next message", async (client) => {
    const front = new Front(server, client, "picker");
    const { of } = await front.say("a color, please", { tools });
    const [{ toolCallId }] = of("TOOL_CALL_START");
    const next = await front.say("never mind", { tools });
    assert.ok(["success"].includes(next.outcome), JSON.stringify(next.finish));
    const { pendingToolCallIds } = await server.thread("picker", front.threadId);
    assert.ok(!pendingToolCallIds.includes(toolCallId));
});
