//! Interrupts: their variants, the answers they offer, the requests, and the messages for refusals.

import assert from "node:assert/strict";
import { test } from "node:test";
import { composite } from "../../../crates/holdpoint/src/inbox/page/decide/composite.js";
import { choiceShape } from "../../../crates/holdpoint/src/inbox/page/decide/custom.js";
import { turnsOf } from "../../../crates/holdpoint/src/inbox/page/decide/conversation.js";
import { kindFor } from "../../../crates/holdpoint/src/inbox/page/decide/kinds.js";
import { outcome } from "../../../crates/holdpoint/src/inbox/page/decide/outcome.js";
import { closed } from "../../../crates/holdpoint/src/inbox/page/decide/page.js";
import {
    fromLink,
    fromRun,
    pick,
    siblings,
    variantOf,
    eligibility,
    previousVersion,
} from "../../../crates/holdpoint/src/inbox/page/decide/model.js";
import { feedbackOf, itemsSchema, sectionSchema } from "../../../crates/holdpoint/src/inbox/page/decide/refine.js";
import { refusal, problemText } from "../../../crates/holdpoint/src/inbox/page/decide/refusals.js";
import { createIdempotencyKeys, requestFor } from "../../../crates/holdpoint/src/inbox/page/decide/requests.js";
import { argumentsSchema } from "../../../crates/holdpoint/src/inbox/page/decide/tool_call.js";
import { form } from "../../../crates/holdpoint/src/inbox/page/form/schema.js";
import { h } from "../../../crates/holdpoint/src/inbox/page/dom.js";
import { stateOf } from "../../../crates/holdpoint/src/inbox/page/views/link.js";
import { assertInert, find, words } from "./descriptions.mjs";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const tools = { id: "t", redraw: () => {}, change: () => {} };

function asked(kind, data, more = {}) {
    return fromRun(
        {
            interruptId: "r:i1",
            nodeId: "gate",
            kind,
            title: "T",
            data,
            status: "open",
            requestedAt: "2026-01-01T11:00:00Z",
            digest: "sha256:x",
            ...more,
        },
        "r",
    );
}

const EVERY_KIND = {
    approval: asked("approval", {
        title: "T",
        actions: ["accept", "reject", "refine", "edit", "ask"],
        artifactData: { text: "a" },
    }),
    governed: asked("approval", {
        actions: ["accept", "reject"],
        gateId: "g",
        requiredRole: "boss",
        override: { requiredRole: "owner" },
    }),
    tool: asked("approval", {
        actions: ["accept", "edit-accept", "reject", "ask"],
        artifactType: "tool.call",
        toolCall: { id: "c1", name: "mail", arguments: { to: "a" } },
    }),
    toolQuestion: asked("custom", {
        customKind: "input_required",
        toolCall: { id: "c1", name: "file", arguments: {} },
        suspension: { response_schema: { type: "string" } },
    }),
    clarification: asked("clarification", { questions: [{ id: "colour", question: "Which colour?" }] }),
    custom: asked("custom", { customKind: "x.y", data: { a: 1 } }),
    multi: asked("custom", {
        customKind: "multi",
        data: { items: [{ key: "a", kind: "k", data: 1, schema: { type: "string" } }] },
    }),
    event: asked("external-event", { eventType: "paid", correlation: { order: 7 } }),
    conversation: asked("conversation.exchange", { prompt: "Well?", conversationId: "c" }),
    confidence: asked("low-confidence", { agentId: "planner", threshold: 0.7, observed: 0.4, decision: { go: "north" } }),
    unknown: asked("of-tomorrow", { a: 1 }),
};

for (const [variant, interrupt] of Object.entries(EVERY_KIND)) {
    test(`an interrupt of the variant ${variant} is recognized, shown and answerable`, () => {
        assert.equal(variantOf(interrupt), variant);
        const kind = kindFor(interrupt);
        assertInert(h("div", {}, kind.content({ now: NOW, interrupts: [interrupt] })));
        const ways = kind.ways(tools);
        assert.ok(ways.length > 0);
        for (const way of ways.filter(({ fields }) => fields)) {
            assertInert(way.fields.describe({ errors: {} }));
        }
    });
}

const way = (interrupt, id) =>
    kindFor(interrupt)
        .ways(tools)
        .find((entry) => entry.id === id);

test("only the actions of the gate are offered, and edit means edit-accept", () => {
    const ids = (actions) =>
        kindFor(asked("approval", { actions }))
            .ways(tools)
            .map(({ id }) => id);
    assert.deepEqual(ids(["accept"]), ["accept"]);
    assert.deepEqual(ids(["edit", "ask", "dance"]), ["edit-accept", "ask"]);
});

test("each answer builds the body that the API expects", () => {
    const { approval, governed, tool, toolQuestion, clarification, event, confidence } = EVERY_KIND;
    assert.deepEqual(way(approval, "accept").build(), { action: "accept" });
    assert.deepEqual(way(approval, "reject").build({ feedback: "" }), { action: "reject" });
    assert.deepEqual(way(approval, "edit-accept").build({ text: "b" }), {
        action: "edit-accept",
        editedArtifactData: { text: "b" },
    });
    assert.deepEqual(way(approval, "ask").build({ question: "Why?" }), { action: "ask", question: "Why?" });
    assert.deepEqual(way(governed, "granted").build({ reason: "ok" }), { decision: "granted", reason: "ok" });
    assert.deepEqual(way(governed, "override").build({ reason: "late" }), { decision: "overridden", reason: "late" });
    assert.deepEqual(way(tool, "edit-accept").build({ to: "b" }), {
        action: "edit-accept",
        editedArtifactData: { arguments: { to: "b" } },
    });
    assert.deepEqual(way(toolQuestion, "resume").build("yes"), { action: "resume", result: "yes" });
    assert.deepEqual(way(toolQuestion, "cancel").build({ reason: "no" }), { action: "cancel", reason: "no" });
    assert.deepEqual(way(clarification, "answers").build({ colour: "blue" }), { answers: { colour: "blue" } });
    assert.deepEqual(way(event, "event").build({ order: 7 }), { eventPayload: { order: 7 } });
    assert.deepEqual(way(confidence, "ratify").build(), { go: "north" });
});

test("an edited call of a provider keeps the format of the provider", () => {
    const interrupt = asked("approval", {
        actions: ["edit-accept"],
        artifactType: "tool.call",
        artifactData: { tool: "Bash", input: { command: "ls" } },
    });
    assert.deepEqual(way(interrupt, "edit-accept").build({ command: "pwd" }), {
        action: "edit-accept",
        editedArtifactData: { tool: "Bash", input: { command: "pwd" } },
    });
});

test("a call with an unknown outcome can be repeated, or its result can be entered", () => {
    const interrupt = asked("approval", {
        actions: ["accept", "edit-accept", "reject"],
        artifactType: "tool.call",
        toolCall: { name: "pay", arguments: {} },
        suspension: { action: "tool:OutcomeUnknown" },
    });
    assert.equal(way(interrupt, "accept").label, "Call again");
    assert.deepEqual(way(interrupt, "edit-accept").build("paid"), { action: "edit-accept", editedArtifactData: { result: "paid" } });
});

test("an edit without changes is not sent", () => {
    const edit = way(EVERY_KIND.approval, "edit-accept");
    assert.equal(edit.isUnchanged({ text: "a" }), true);
    assert.equal(edit.isUnchanged({ text: "b" }), false);
});

test("a schema with a choice of actions has one button per action, and the answer includes the constants", () => {
    const resumeSchema = {
        type: "object",
        required: ["action"],
        properties: { action: { enum: ["approve", "revise"] }, draft: { type: "string" }, revision: { const: 3 } },
    };
    const interrupt = asked("custom", { customKind: "content_review", data: { draft: "old", revision: 3 } }, { resumeSchema });
    const ways = kindFor(interrupt).ways(tools);
    assert.deepEqual(
        ways.map(({ label, key }) => [label, key]),
        [
            ["Approve", "a"],
            ["Revise", "e"],
        ],
    );
    assert.deepEqual(ways[0].build({ draft: "old" }), { action: "approve", revision: 3 });
    assert.deepEqual(ways[1].build({ draft: "new" }), { action: "revise", draft: "new", revision: 3 });
    assert.deepEqual(choiceShape(interrupt, "action").present, { draft: "old" });
});

test("members that the resume schema requires in addition to the action have fields", () => {
    const resumeSchema = { type: "object", required: ["ticket"], properties: { action: {}, ticket: { type: "string" } } };
    const accept = way(asked("approval", { actions: ["accept"] }, { resumeSchema }), "accept");
    assert.ok(accept.fields);
    assert.deepEqual(accept.build({ ticket: "T-1" }), { action: "accept", ticket: "T-1" });
});

test("the sections and items of the artifact are offered for change requests", () => {
    assert.deepEqual(
        sectionSchema("# One\ntext\n## Two ##").oneOf.map(({ const: name }) => name),
        ["One", "Two"],
    );
    assert.equal(sectionSchema(7).type, "string");
    assert.deepEqual(itemsSchema({ lines: [{ id: "a", text: "Chair" }, { id: "b" }] }).items.oneOf, [
        { const: "a", title: "a: Chair" },
        { const: "b", title: "b" },
    ]);
    assert.equal(itemsSchema("text").items.type, "string");
    assert.deepEqual(feedbackOf("items", { itemIds: ["a"], text: "", tags: [] }), { scope: "items", itemIds: ["a"] });
});

test("flat arguments have one field each, other arguments are edited as JSON", () => {
    assert.deepEqual(argumentsSchema({ to: "a", count: 2 }).properties, { to: { type: "string" }, count: { type: "number" } });
    assert.deepEqual(argumentsSchema({ to: ["a"] }), {});
    assert.deepEqual(argumentsSchema({}), {});
});

test("a composite form passes each error to its part", () => {
    const part = (name) => ({ name, form: form({ type: "string", minLength: 1 }, { id: name }) });
    const fields = composite([part("a"), part("b/c")]);
    const described = fields.describe({ errors: { "/b~1c": "wrong here" } });
    const [first, second] = find(described, "div", "composite-part");
    assert.ok(!words(first).includes("wrong here"));
    assert.ok(words(second).includes("wrong here"));
    assert.deepEqual(Object.keys(fields.read().errors), ["/a", "/b~1c"]);
});

test("the open interrupt of the node is selected, unless another one is named", () => {
    const list = [
        asked("approval", {}, { interruptId: "r:i1", status: "answered" }),
        asked("approval", {}, { interruptId: "r:i2" }),
        asked("approval", {}, { interruptId: "r:i3" }),
    ];
    assert.equal(pick(list, { nodeId: "gate" }).interruptId, "r:i2");
    assert.equal(pick(list, { nodeId: "gate", interruptId: "r:i3" }).interruptId, "r:i3");
    assert.deepEqual(
        siblings(list, list[1]).map(({ interruptId }) => interruptId),
        ["r:i3"],
    );
    assert.equal(pick([], { nodeId: "gate" }), undefined);
});

test("the previous version belongs to the same artifact", () => {
    const version = (id, artifactId, status) => asked("approval", { artifactId }, { interruptId: id, status });
    const list = [version("1", "x", "answered"), version("2", "y", "answered"), version("3", "x", "open")];
    assert.equal(previousVersion(list, list[2]).interruptId, "1");
    assert.equal(previousVersion(list, list[0]), undefined);
});

test("a requester is not eligible if another person must decide", () => {
    const interrupt = asked("approval", { requesterMayNotApprove: true });
    const run = { owner: { principal: "ann" }, forkedBy: ["bob"], requestedBy: ["dora"] };
    assert.equal(eligibility(interrupt, { principal: "dora" }, run), "requester");
    assert.equal(eligibility(interrupt, { principal: "ann" }, run), "requester");
    assert.equal(eligibility(interrupt, { principal: "bob" }, run), "requester");
    assert.equal(eligibility(interrupt, { principal: "cy" }, run), "may");
    assert.equal(eligibility(interrupt, { principal: "cy", scopes: ["runs:read"] }, run), "noScope");
    assert.equal(eligibility({ ...interrupt, votes: [{ decidedBy: "cy" }] }, { principal: "cy" }, run), "voted");
    assert.equal(eligibility({ ...interrupt, assignees: ["role:x"] }, { principal: "cy" }, run), "unnamed");
});

test("a link has the assignees of its gate, and separate deadlines of the interrupt and of itself", () => {
    const interrupt = fromLink({
        kind: "approval",
        data: { approversList: ["ada"], approverRoleRefs: ["x"] },
        expiresAt: "L",
        interruptExpiresAt: "D",
    });
    assert.deepEqual(interrupt.assignees, ["ada", "role:x"]);
    assert.deepEqual([interrupt.expiresAt, interrupt.linkExpiresAt], ["D", "L"]);
});

test("equal answers have the same idempotency key, different answers have different keys", () => {
    let count = 0;
    const keyFor = createIdempotencyKeys(() => `k${(count += 1)}`);
    assert.equal(keyFor({ a: 1 }), "k1");
    assert.equal(keyFor({ a: 1 }), "k1");
    assert.equal(keyFor({ a: 2 }), "k2");
});

test("an answer names the shown interrupt", () => {
    const value = { action: "reject", feedback: "no" };
    assert.deepEqual(requestFor({ ...EVERY_KIND.tool, interruptId: "r:i2" }, value), {
        path: "/v1/runs/r/interrupts/gate",
        body: { resumeValue: value, digest: "sha256:x", interruptId: "r:i2" },
    });
});

test("an answer is confirmed in a sentence, and only an acceptance looks like a success", () => {
    const confirmation = (interrupt, id, result) => {
        const box = outcome(result, { way: way(interrupt, id) });
        return [words(find(box, "h2")[0]), find(box, "p").map(words).filter(Boolean).join(" "), box.attrs.class.includes("notice-good")];
    };
    const { approval, tool, event } = EVERY_KIND;
    assert.deepEqual(confirmation(approval, "accept", { outcome: "resolved", status: "completed" }), ["You accepted this.", "The run has completed.", true]);
    const failed = (errorCode) => confirmation(approval, "reject", { outcome: "resolved", status: "failed", errorCode });
    assert.deepEqual(failed("approval_rejected"), ["You rejected this.", "The run has ended.", false]);
    assert.deepEqual(failed("node_failed"), ["You rejected this.", "The run has failed.", false], "the run failed for another reason than the rejection");
    assert.deepEqual([failed(null)[1], failed(undefined)[1]], ["The run has failed.", ""], "an unknown reason is not shown");
    assert.deepEqual(confirmation(approval, "refine", { outcome: "resolved", status: "running" }), ["You requested changes.", "The run continues.", false]);
    assert.deepEqual(confirmation(approval, "accept", { outcome: "voted" }), ["You accepted this.", "Your vote was counted. More votes are required.", true]);
    assert.equal(confirmation(tool, "reject", {})[0], "You rejected the call.");
    assert.equal(confirmation(event, "event", {})[0], "You sent the event.");
    const ways = Object.values(EVERY_KIND).flatMap((interrupt) => kindFor(interrupt).ways(tools)).filter(({ id }) => id !== "ask");
    assert.deepEqual(ways.filter((one) => /^You answered: /.test(words(find(outcome({}, { way: one }), "h2")[0]))).map(({ label }) => label), []);
    assert.match(words(outcome({}, { way: { id: "choice x", label: "Later", look: "plain" } })), /^You answered: Later\./);
});

test("the decision of another principal is shown in a sentence with its time", () => {
    const over = (action) => asked("approval", {}, { status: "answered", decision: { by: "admin", value: { action }, at: "2026-01-01T12:00:00Z" } });
    assert.equal(words(closed(over("reject"), NOW)), "admin rejected this just now.");
    assert.equal(words(closed(over("later"), NOW + 120_000)), "admin answered: later 2 minutes ago.");
    assert.match(words(closed(asked("approval", {}, { status: "timed-out" }), NOW)), /expired without an answer/);
});

test("a refusal has a message, and states whether the page must reload and whether the request can be repeated", () => {
    assert.match(refusal({ status: 409, code: "interrupt_already_resolved" }).words, /already decided/);
    assert.equal(refusal({ status: 409, code: "interrupt_already_resolved" }).isOver, true);
    assert.equal(refusal({ status: 403, code: "forbidden", message: "no" }).isOver, false);
    assert.equal(refusal({ status: 503, code: "overloaded" }).mayRepeat, true);
    assert.equal(refusal({ status: 0, code: "unreachable" }).mayRepeat, true);
    const bad = refusal(
        {
            status: 400,
            code: "validation_error",
            message: "resumeValue.answers.n: too big",
            details: { field: "resumeValue.answers.n" },
        },
        "resumeValue.answers",
    );
    assert.deepEqual(bad.errors, { "/n": "too big" });
});

test("only messages of the server are attributed to the server", () => {
    assert.equal(problemText({ code: "forbidden", message: "You may not." }), "The server says: You may not.");
    for (const code of ["unreachable", "not_json", "http_502"]) {
        assert.equal(problemText({ code, message: "The server cannot be reached." }), "The server cannot be reached.");
    }
});

test("every error of a link has its state", () => {
    const states = [
        [404, "interrupt_not_found", "unknown"],
        [410, "interrupt_expired", "expired"],
        [409, "interrupt_already_resolved", "answered"],
        [422, "interrupt_cancelled", "cancelled"],
        [401, "unauthenticated", "signIn"],
        [429, "rate_limited", "busy"],
        [500, "internal_error", "failed"],
        [0, "unreachable", "failed"],
    ];
    states.forEach(([status, code, state]) => assert.equal(stateOf({ status, code }), state));
});

test("a conversation has the prompts and the answers in their order", () => {
    const talk = (id, more) =>
        asked("conversation.exchange", { prompt: `${id}?`, conversationId: "c" }, { interruptId: id, ...more });
    const list = [
        talk("1", { status: "answered", decision: { by: "ann", value: "blue", at: "2026-01-01T11:30:00Z" } }),
        asked("approval", {}),
        talk("2", {}),
    ];
    assert.deepEqual(
        turnsOf(list[2], list).map(({ who, words: said }) => [who, said]),
        [
            ["run", "1?"],
            ["person", "blue"],
            ["run", "2?"],
        ],
    );
});
