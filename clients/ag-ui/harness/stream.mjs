//! What must be true of every stream, whatever it is about. The clients forgive some of this; other clients may not.

import assert from "node:assert/strict";

/** The events of a whole stream, after a look at its framing. */
export function events(text) {
    assert.ok(!text.includes("\r"), "lines end with LF alone");
    assert.ok(text.endsWith("\n\n"), "the last frame is complete");
    const frames = text.split("\n\n").slice(0, -1).filter((frame) => !frame.startsWith(":"));
    return frames.map((frame) => {
        assert.match(frame, /^data: \{.*\}$/, "a frame is one line of data");
        return JSON.parse(frame.slice("data: ".length));
    });
}

/** One run, from its beginning to its one end. */
export function checkRun(all, { threadId, runId, modern }) {
    all.forEach((event) => assertNoNull(event, event.type));
    const [first, last] = [all[0], all.at(-1)];
    assert.equal(first.type, "RUN_STARTED");
    assert.deepEqual([first.threadId, first.runId, first.protocolVersion], [threadId, runId, "1.0"]);
    const ends = all.filter((event) => ["RUN_FINISHED", "RUN_ERROR"].includes(event.type));
    assert.deepEqual(ends, [last], "a run ends once, and at the end");
    if (last.type === "RUN_FINISHED") checkFinish(all, last, { threadId, runId, modern });
    const state = all.map(({ type }) => type).filter((type) => type.startsWith("STATE_"));
    assert.notEqual(state[0], "STATE_DELTA", "the state is told as a whole before its changes");
    const bound = all.filter((event) => event.type === "TOOL_CALL_START").map((event) => event.toolCallId);
    assert.equal(new Set(bound).size, bound.length, "a call is told once");
}

function checkFinish(all, last, { threadId, runId, modern }) {
    assert.deepEqual([last.threadId, last.runId], [threadId, runId]);
    const before = all.slice(-3, -1).map((event) => event.type);
    assert.deepEqual(before, ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"], "what is needed to go on comes before the end");
    const known = modern ? ["success", "interrupt", "cancelled"] : ["success", "interrupt"];
    assert.ok(known.includes(last.outcome.type), `${last.outcome.type} is a word that this client knows`);
    if (!modern) assert.ok(!("pendingToolCallIds" in last.outcome), "an older client fails on that");
    if (last.outcome.type !== "interrupt") return;
    const { interrupts } = last.outcome;
    assert.ok(interrupts.length > 0);
    assert.equal(new Set(interrupts.map(({ id }) => id)).size, interrupts.length, "interrupts have names of their own");
    for (const interrupt of interrupts) {
        if (interrupt.reason === "tool_call") assertBound(all.at(-2).messages, interrupt);
    }
}

/** The call that is asked about is in the messages, and has no result yet. */
function assertBound(messages, { toolCallId }) {
    const calls = messages.flatMap((message) => message.toolCalls ?? []).map(({ id }) => id);
    assert.ok(calls.includes(toolCallId), `the messages have the call ${toolCallId}`);
    assert.ok(!messages.some((message) => message.toolCallId === toolCallId), "and no result of it");
}

function assertNoNull(value, path) {
    assert.notEqual(value, null, `${path} is absent rather than null`);
    if (typeof value !== "object") return;
    for (const [name, member] of Object.entries(value)) assertNoNull(member, `${path}.${name}`);
}
