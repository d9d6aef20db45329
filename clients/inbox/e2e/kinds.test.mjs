//! The other kinds of interrupts: events, conversations, low confidence, tool calls, holds.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { story } from "../harness/browser.mjs";
import { KEY, onEachDatabase } from "../harness/server.mjs";
import { interruptNode, talk, unsure } from "../harness/workflows.mjs";

onEachDatabase("other kinds", (server) => {
    story("the page of an external event shows the expected event, and that it was received", async (openBrowser) => {
        const interrupt = await server.openInterrupt(interruptNode("evented", { kind: "external-event", data: { eventType: "payment.received", correlation: { order: "17" } } }));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.waitForText("Waits for the event");
        await ann.page.locator("code", { hasText: "payment.received" }).first().waitFor();
        await ann.waitForText("POST /v1/events");
        await server.call("POST", "/v1/events", { eventType: "payment.received", eventId: randomUUID(), correlation: { order: "17" }, payload: { order: "17" } });
        await server.waitForStatus(interrupt, "completed");
        await ann.page.reload();
        await ann.waitForText("bootstrap answered this");
        assert.equal(await ann.page.getByText("POST /v1/events").count(), 0, "the instructions are gone after the event");
        assert.equal(await ann.page.locator(".decide-bar button").count(), 0);
    });

    story("a conversation continues turn by turn", async (openBrowser) => {
        const interrupt = await server.openInterrupt(talk("talked"));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.waitForText("Which colour?");
        await ann.field("Message").fill("Blue, please.");
        await ann.press("Send");
        await ann.page.locator(".chat .turn-person", { hasText: "Blue, please." }).waitFor();
        await ann.field("Message").fill("Dark blue.");
        await ann.press("Send");
        await server.waitForStatus(interrupt, "completed");
        assert.equal(await server.waitForAnswer(interrupt), "Blue, please.");
    });

    story("a decision of low confidence is ratified or overruled", async (openBrowser) => {
        const ann = await openBrowser(server);
        const first = await server.openInterrupt(unsure("unsure"));
        await ann.go(first.path);
        await ann.waitForText("Confidence: 40%");
        await ann.press("Ratify");
        await server.waitForStatus(first, "completed");
        assert.equal(await server.waitForAnswer(first), "go");
        const second = await server.startRun("unsure");
        await ann.go(second.path);
        await ann.press("Overrule");
        await ann.field("Replacement decision").fill("stay");
        await ann.press("Overrule");
        await server.waitForStatus(second, "completed");
        assert.equal(await server.waitForAnswer(second), "stay");
    });

    story("a tool call is accepted with edited arguments", async (openBrowser) => {
        const threadId = `thread-${randomUUID()}`;
        const body = { threadId, runId: randomUUID(), messages: [{ id: "1", role: "user", content: "Send the mail." }], tools: [], context: [], state: {}, forwardedProps: {} };
        const answer = await fetch(`${server.url}/ag-ui/edit`, {
            method: "POST", body: JSON.stringify(body),
            headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", Accept: "text/event-stream" },
        });
        assert.equal(answer.status, 200, await answer.clone().text());
        await answer.text();
        const { interrupts } = await server.call("GET", "/v1/interrupts?whose=all");
        const listed = interrupts.find(({ title, kind }) => kind === "approval" && /mail/i.test(JSON.stringify(title)));
        const interrupt = await server.waitForInterrupt(listed.runId);
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.page.getByRole("heading", { name: /^Tool: / }).waitFor();
        await ann.button("Accept the call").waitFor();
        await ann.press("Edit and accept the call");
        await ann.page.locator(".way input[type=text], .way textarea, .way input:not([type])").first().fill("new@example.test");
        await ann.press("Review the change");
        await ann.press("Yes: Edit and accept the call");
        await ann.waitForText("You edited and accepted the call.");
        const value = await server.waitForAnswer(interrupt);
        assert.equal(value.action, "edit-accept");
        assert.match(JSON.stringify(value.editedArtifactData), /new@example\.test/);
    });

    story("a hold is decided, and the waiting program gets the decision", async (openBrowser) => {
        const { holdId } = await server.createHold({ title: "Deploy version 2?", description: "Nothing else is **known**." });
        const waiting = server.call("GET", `/v1/holds/${holdId}?wait=20`);
        const ann = await openBrowser(server);
        await ann.go("/inbox");
        await ann.page.getByRole("link", { name: "Deploy version 2?" }).click();
        await ann.page.locator(".description strong", { hasText: "known" }).waitFor();
        await ann.waitForText("No content is attached.");
        await ann.page.locator(".interrupt-head", { hasText: "Asked by" }).waitFor();
        assert.doesNotMatch(await ann.page.locator("body").innerText(), /holdpoint-hold/);
        await ann.page.locator(".decide-bar .primary, .decide .actions .primary").first().click();
        assert.equal((await waiting).status, "approved");
        await ann.waitForText("You accepted this.");
        await ann.navigate(`/inbox/runs/${holdId}`);
        await ann.page.getByRole("heading", { name: "Hold: Deploy version 2?" }).waitFor();
        assert.doesNotMatch(await ann.page.locator("body").innerText(), /holdpoint-hold/);
        const bare = await server.createHold({ title: "And version 3?" });
        await ann.navigate((await server.waitForInterrupt(bare.holdId)).path);
        await ann.button("Accept").waitFor();
        assert.equal(await ann.page.getByText("No content is attached").count(), 0, "the note appears only with a description");
    });
});
