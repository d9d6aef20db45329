//! Checks that apply to every stream. The published clients tolerate some violations; other clients may not.

import assert from "node:assert/strict";

/** Returns the events of a complete stream. Checks the framing. */
export function events(text) {
    assert.ok(!text.includes("\r"), "lines end with LF");
    assert.ok(text.endsWith("\n\n"), "the last frame is complete");
    const frames = text.split("\n\n").slice(0, -1).filter((frame) => !frame.startsWith(":"));
    return frames.map((frame) => {
        assert.match(frame, /^data: \{.*\}$/, "a frame is one line of data");
        return JSON.parse(frame.slice("data: ".length));
    });
}

/** Checks the events of one run, from its start to its single end. */
export function checkRun(all, { threadId, runId, modern }) {
    all.forEach((event) => assertNoNull(event, event.type));
    const [first, last] = [all[0], all.at(-1)];
    assert.equal(first.type, "RUN_STARTED");
    assert.deepEqual([first.threadId, first.runId, first.protocolVersion], [threadId, runId, "1.0"]);
    const ends = all.filter((event) => ["RUN_FINISHED", "RUN_ERROR"].includes(event.type));
    assert.deepEqual(ends, [last], "a run has one end, which is the last event");
    if (last.type === "RUN_FINISHED") checkFinish(all, last, { threadId, runId, modern });
    const state = all.map(({ type }) => type).filter((type) => type.startsWith("STATE_"));
    assert.notEqual(state[0], "STATE_DELTA", "a snapshot of the state comes before its changes");
    const bound = all.filter((event) => event.type === "TOOL_CALL_START").map((event) => event.toolCallId);
    assert.equal(new Set(bound).size, bound.length, "each call starts once");
}

function checkFinish(all, last, { threadId, runId, modern }) {
    assert.deepEqual([last.threadId, last.runId], [threadId, runId]);
    const before = all.slice(-3, -1).map((event) => event.type);
    assert.deepEqual(before, ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"], "the snapshots come before the end");
    const known = modern ? ["success", "interrupt", "cancelled"] : ["success", "interrupt"];
    assert.ok(known.includes(last.outcome.type), `${last.outcome.type} is known to this client`);
    if (!modern) assert.ok(!("pendingToolCallIds" in last.outcome), "an older client rejects this member");
    if (last.outcome.type !== "interrupt") return;
    const { interrupts } = last.outcome;
    assert.ok(interrupts.length > 0);
    assert.equal(new Set(interrupts.map(({ id }) => id)).size, interrupts.length, "interrupts have unique ids");
    for (const interrupt of interrupts) {
        if (interrupt.reason === "tool_call") assertBound(all.at(-2).messages, interrupt);
    }
}

/** Checks that the messages contain the call of the interrupt, without a result. */
function assertBound(messages, { toolCallId }) {
    const calls = messages.flatMap((message) => message.toolCalls ?? []).map(({ id }) => id);
    assert.ok(calls.includes(toolCallId), `the messages have the call ${toolCallId}`);
    assert.ok(!messages.some((message) => message.toolCallId === toolCallId), "the call has no result");
}

function assertNoNull(value, path) {
    assert.notEqual(value, null, `${path} must be absent, not null`);
    if (typeof value !== "object") return;
    for (const [name, member] of Object.entries(value)) assertNoNull(member, `${path}.${name}`);
}
