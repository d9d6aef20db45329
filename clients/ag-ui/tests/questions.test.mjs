//! Interrupts without a tool call: forms, confirmations, workflows. And the capabilities of agents.

import assert from "node:assert/strict";
import { Front, one, withBoth } from "../harness/clients.mjs";
import { serving } from "../harness/server.mjs";

const server = serving();
const filing = { quarter: "Q1", year: 2026, revenue: 4200000 };

withBoth("a form has its schema, and stays open after an invalid answer", async (client) => {
    const front = new Front(server, client, "form");
    assert.equal((await front.say("file it")).outcome, "interrupt");
    const [{ reason, message, responseSchema, ...rest }] = front.pending;
    assert.equal(reason, "input_required");
    assert.ok(message);
    assert.ok(!("toolCallId" in rest), "it has no tool call");
    assert.deepEqual(responseSchema, {
        type: "object",
        properties: {
            quarter: { type: "string", enum: ["Q1", "Q2", "Q3", "Q4"] },
            year: { type: "integer", minimum: 2000 },
            revenue: { type: "number" },
        },
        required: ["quarter", "year", "revenue"],
    });
    for (const payload of [{ ...filing, quarter: "Q5" }, { quarter: "Q1" }, {}, "Q1", undefined]) {
        const refused = await front.answer(payload);
        assert.equal(refused.error?.code, "INVALID_PAYLOAD", JSON.stringify(payload));
        assert.deepEqual(refused.types, ["RUN_STARTED", "RUN_ERROR"]);
        assert.equal((await server.thread("form", front.threadId)).interrupts.length, 1);
    }
    assert.equal((await front.answer(filing)).outcome, "success");
    assert.deepEqual(front.results.at(-1).filing, filing);
    assert.equal(front.state.executions, 1);
});

withBoth("a cancelled form is not filed", async (client) => {
    const front = new Front(server, client, "form");
    await front.say("file it");
    assert.equal((await front.answer("cancel")).outcome, "success");
    assert.equal(front.state.executions ?? 0, 0);
    assert.equal(front.texts.at(-1), "Then nothing is filed.");
});

withBoth("a confirmation continues the run", async (client) => {
    const front = new Front(server, client, "confirm");
    await front.say("do it");
    const [{ reason, responseSchema, ...rest }] = front.pending;
    assert.deepEqual([reason, responseSchema], ["confirmation", { type: "boolean" }]);
    assert.ok(!("toolCallId" in rest));
    assert.equal((await front.answer(true)).outcome, "success");
    assert.equal(front.state.executions, 1);
    assert.match(front.texts.at(-1), /^Done: /);
});

withBoth("a declined confirmation does not execute the call", async (client) => {
    const front = new Front(server, client, "confirm");
    await front.say("do it");
    assert.equal((await front.answer(false)).outcome, "success");
    assert.equal(front.state.executions ?? 0, 0);
    assert.equal(front.texts.at(-1), "Then I leave it.");
});

withBoth("a workflow opens an interrupt and continues like an agent", async (client) => {
    for (const payload of [{ approved: true }, true, { approved: true, feedback: "well done" }]) {
        const front = new Front(server, client, "sample-approval");
        const begun = await front.say("publish it");
        assert.equal(begun.outcome, "interrupt");
        assert.deepEqual(begun.of("STEP_STARTED").map(({ stepName }) => stepName), ["prepare", "review"]);
        assert.equal(front.pending[0].reason, "confirmation");
        const resumed = await front.answer(payload);
        assert.equal(resumed.outcome, "success");
        assert.ok(resumed.of("STEP_STARTED").some(({ stepName }) => stepName === "publish"));
        assert.equal(front.state.action, "accept");
        assert.deepEqual(front.pending, []);
    }
});

withBoth("a rejected or cancelled workflow ends with an error and does not publish", async (client) => {
    for (const payload of [{ approved: false, feedback: "not like this" }, false, "cancel"]) {
        const front = new Front(server, client, "sample-approval");
        await front.say("publish it");
        const resumed = await front.answer(payload);
        assert.ok(resumed.error, resumed.outcome);
        assert.ok(!resumed.of("STEP_STARTED").some(({ stepName }) => stepName === "publish"));
        assert.deepEqual((await server.thread("sample-approval", front.threadId)).interrupts, []);
    }
});

one("agents and workflows return their capabilities", async () => {
    const { status, body } = await server.request("GET", "/ag-ui/edit/capabilities");
    assert.equal(status, 200);
    assert.equal(body.identity.type, "agent");
    assert.deepEqual([body.transport.streaming, body.transport.resumable], [true, true]);
    assert.deepEqual([body.state.snapshots, body.tools.clientProvided], [true, true]);
    assert.deepEqual([body.humanInTheLoop.interrupts, body.humanInTheLoop.approveWithEdits], [true, true]);
    assert.equal((await server.request("GET", "/ag-ui/sample-approval/capabilities")).body.identity.type, "workflow");
    assert.equal((await server.request("GET", "/ag-ui/unknown/capabilities")).status, 404);
});
