//! Workflows with other kinds of interrupts: custom reasons and clarifications. And cancelled runs, with the outcome
//! that each version knows.

import assert from "node:assert/strict";
import { Front, withBoth } from "../harness/clients.mjs";
import { serving } from "../harness/server.mjs";

const server = serving();

withBoth("a custom interrupt keeps its reason and schema", async (client) => {
    const answerSchema = { type: "object", properties: { table: { type: "string" } }, required: ["table"] };
    await register("custom", {
        typeId: "core.interrupt",
        config: { kind: "custom", data: { customKind: "database", reason: "mine:database_change", message: "Which table?" }, resumeSchema: answerSchema },
    });
    const front = new Front(server, client, "custom");
    assert.equal((await front.say("change it")).outcome, "interrupt");
    const [{ reason, responseSchema }] = front.pending;
    assert.deepEqual([reason, responseSchema], ["mine:database_change", answerSchema]);
    assert.equal((await front.answer({ table: 7 })).error?.code, "INVALID_PAYLOAD");
    assert.equal((await front.answer({ table: "users" })).outcome, "success");
});

withBoth("a clarification has a schema from its questions", async (client) => {
    const questions = [{ id: "color", question: "Which color?" }];
    await register("clarify", { typeId: "core.clarificationGate", config: { questions } });
    const front = new Front(server, client, "clarify");
    await front.say("paint it");
    const [{ reason, responseSchema }] = front.pending;
    assert.equal(reason, "input_required");
    assert.ok("color" in responseSchema.properties);
    assert.equal((await front.answer({ color: "blue" })).outcome, "success");
});

withBoth("cancelling a clarification cancels the run, with an outcome that the client knows", async (client) => {
    await register("clarify", { typeId: "core.clarificationGate", config: { questions: [{ id: "color", question: "Which color?" }] } });
    const front = new Front(server, client, "clarify");
    await front.say("paint it");
    const ended = await front.answer("cancel");
    assertCancelled(client, ended);
    const { status, interrupts } = await server.thread("clarify", front.threadId);
    assert.deepEqual([status, interrupts], ["cancelled", []]);
});

withBoth("a run that was cancelled over another interface has this outcome, and the thread continues", async (client) => {
    const front = new Front(server, client, "approve");
    await front.say("please write to them");
    const { runId } = await server.thread("approve", front.threadId);
    const { status, body } = await server.request("POST", `/v1/runs/${runId}/cancel`, {});
    assert.ok(status < 300, JSON.stringify(body));
    const reloaded = new Front(server, client, "approve", { threadId: front.threadId });
    assertCancelled(client, await reloaded.run());
    assert.equal((await reloaded.say("again, please")).outcome, "interrupt");
    assert.equal((await reloaded.answer({ approved: true })).outcome, "success");
    assert.equal(reloaded.state.executions, 1);
});

function assertCancelled(client, { outcome, error }) {
    if (client.modern) assert.equal(outcome, "cancelled");
    else assert.equal(error?.code, "cancelled");
}

/** Registers a workflow of one node. */
async function register(id, node) {
    const asked = { id: "ask", name: "Ask", inputs: {}, position: { x: 0, y: 0 }, ...node };
    const workflow = {
        id, name: id, version: "1.0.0", nodes: [asked], edges: [], variables: [], metadata: {}, settings: {},
        triggers: [{ id: "manual", type: "manual", enabled: true }],
    };
    const { status, body } = await server.request("PUT", `/v1/workflows/${id}`, workflow);
    assert.ok(status < 300, JSON.stringify(body));
}
