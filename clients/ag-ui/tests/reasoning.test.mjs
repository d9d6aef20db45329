//! Reasoning, streamed arguments, activities and content parts, with the demo agent `reasoning`.

import assert from "node:assert/strict";
import { Front, withBoth } from "../harness/clients.mjs";
import { serving } from "../harness/server.mjs";

const server = serving();

withBoth("reasoning is a message before the reply, and stays after the snapshot", async (client) => {
    const front = new Front(server, client, "reasoning");
    const said = await front.say("How were the quarters?");
    assert.equal(said.outcome, "success");
    const roles = front.messages.map(({ role }) => role).filter((role) => role !== "activity");
    assert.deepEqual(roles, ["user", "reasoning", "reasoning", "assistant", "tool", "reasoning", "assistant"]);
    const thoughts = front.messages.filter(({ role }) => role === "reasoning").map(({ content }) => content);
    assert.match(thoughts[0], /^The user asks /);
    assert.equal(said.of("REASONING_MESSAGE_CONTENT").map(({ delta }) => delta).join(""), thoughts.join(""));
    // The client sends the reasoning back with its next input; the server has it.
    const again = await front.say("And now?");
    assert.equal(again.outcome, "success");
    assert.equal(front.messages.filter(({ role }) => role === "reasoning").length, 6);
});

withBoth("the arguments of a call arrive while the model writes them", async (client) => {
    const front = new Front(server, client, "reasoning");
    const said = await front.say("Draw");
    const parts = said.of("TOOL_CALL_ARGS").map(({ delta }) => delta);
    assert.ok(parts.length > 2, `${parts.length} parts`);
    const [call] = front.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
    assert.deepEqual(JSON.parse(call.function.arguments), JSON.parse(parts.join("")));
    assert.equal(JSON.parse(call.function.arguments).title, "Revenue by quarter");
});

withBoth("the progress of a call is an activity", async (client) => {
    const front = new Front(server, client, "reasoning");
    const said = await front.say("Draw");
    assert.ok(said.of("ACTIVITY_SNAPSHOT").length > 0);
    const [activity] = front.messages.filter(({ role }) => role === "activity");
    assert.equal(activity.activityType, "PROGRESS");
    assert.equal(activity.content.total, 4);
});

withBoth("a result with an image has parts for clients of 1.0, and text for others", async (client) => {
    const front = new Front(server, client, "reasoning");
    const said = await front.say("Draw");
    const [{ content }] = said.of("TOOL_CALL_RESULT");
    const kept = front.messages.find(({ role }) => role === "tool").content;
    assert.deepEqual(kept, content);
    if (client.modern) {
        assert.deepEqual(content.map(({ type }) => type), ["text", "image"]);
        assert.equal(content[1].source.mimeType, "image/png");
    } else {
        assert.equal(content, "Revenue by quarter\n[image/png]");
    }
});
