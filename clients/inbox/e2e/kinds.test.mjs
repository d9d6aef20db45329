//! Every other kind of pause: events, conversations, agents, tools, programs.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { story } from "../harness/browser.mjs";
import { KEY, onEach } from "../harness/server.mjs";
import { interrupt, talk, unsure } from "../harness/workflows.mjs";

onEach("other kinds", (server) => {
    story("an event from outside: what is waited for is shown, and the page goes on when it comes", async (arrives) => {
        const pause = await server.asks(interrupt("evented", { kind: "external-event", data: { eventType: "payment.received", correlation: { order: "17" } } }));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.sees("Waits for the event");
        await ann.page.locator("code", { hasText: "payment.received" }).first().waitFor();
        await ann.sees("POST /v1/events");
        await server.does("POST", "/v1/events", { eventType: "payment.received", eventId: randomUUID(), correlation: { order: "17" }, payload: { order: "17" } });
        await server.becomes(pause, "completed");
        await ann.page.reload();
        await ann.sees("bootstrap answered this");
        assert.equal(await ann.page.getByText("POST /v1/events").count(), 0, "nobody is told how to send what has come");
        assert.equal(await ann.page.locator(".decide-bar button").count(), 0);
    });

    story("a conversation is a chat that goes on turn by turn", async (arrives) => {
        const pause = await server.asks(talk("talked"));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.sees("Which colour?");
        await ann.field("Message").fill("Blue, please.");
        await ann.press("Send");
        await ann.page.locator(".chat .turn-person", { hasText: "Blue, please." }).waitFor();
        await ann.field("Message").fill("Dark blue.");
        await ann.press("Send");
        await server.becomes(pause, "completed");
        assert.equal(await server.answered(pause), "Blue, please.");
    });

    story("an agent that is not sure is ratified, or overruled", async (arrives) => {
        const ann = await arrives(server);
        const first = await server.asks(unsure("unsure"));
        await ann.go(first.path);
        await ann.sees("40% sure");
        await ann.press("Ratify");
        await server.becomes(first, "completed");
        assert.equal(await server.answered(first), "go");
        const second = await server.starts("unsure");
        await ann.go(second.path);
        await ann.press("Overrule");
        await ann.field("What is decided instead").fill("stay");
        await ann.press("Overrule");
        await server.becomes(second, "completed");
        assert.equal(await server.answered(second), "stay");
    });

    story("a tool call is allowed with other arguments", async (arrives) => {
        const threadId = `thread-${randomUUID()}`;
        const body = { threadId, runId: randomUUID(), messages: [{ id: "1", role: "user", content: "Send the mail." }], tools: [], context: [], state: {}, forwardedProps: {} };
        const answer = await fetch(`${server.url}/ag-ui/edit`, {
            method: "POST", body: JSON.stringify(body),
            headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", Accept: "text/event-stream" },
        });
        assert.equal(answer.status, 200, await answer.clone().text());
        await answer.text();
        const { interrupts } = await server.does("GET", "/v1/interrupts?whose=all");
        const listed = interrupts.find(({ title, kind }) => kind === "approval" && /mail/i.test(JSON.stringify(title)));
        const pause = await server.opened(listed.runId);
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.page.getByRole("heading", { name: /^Tool: / }).waitFor();
        await ann.button("Allow the call").waitFor();
        await ann.press("Change and allow");
        await ann.page.locator(".way input[type=text], .way textarea, .way input:not([type])").first().fill("new@example.test");
        await ann.press("Review the change");
        await ann.press("Yes: Change and allow");
        await ann.sees("You changed the call and allowed it.");
        const value = await server.answered(pause);
        assert.equal(value.action, "edit-accept");
        assert.match(JSON.stringify(value.editedArtifactData), /new@example\.test/);
    });

    story("a hold of a program is decided, and the program hears of it", async (arrives) => {
        const { holdId } = await server.hold({ title: "Deploy version 2?", description: "Nothing else is **known**." });
        const waiting = server.does("GET", `/v1/holds/${holdId}?wait=20`);
        const ann = await arrives(server);
        await ann.go("/inbox");
        await ann.page.getByRole("link", { name: "Deploy version 2?" }).click();
        await ann.page.locator(".description strong", { hasText: "known" }).waitFor();
        await ann.sees("Nothing is attached: the title and the description are all there is.");
        await ann.page.locator(".pause-head", { hasText: "Asked by" }).waitFor();
        assert.doesNotMatch(await ann.page.locator("body").innerText(), /holdpoint-hold/);
        await ann.page.locator(".decide-bar .primary, .decide .actions .primary").first().click();
        assert.equal((await waiting).status, "approved");
        await ann.sees("You accepted this.");
        await ann.moves(`/inbox/runs/${holdId}`);
        await ann.page.getByRole("heading", { name: "Question: Deploy version 2?" }).waitFor();
        assert.doesNotMatch(await ann.page.locator("body").innerText(), /holdpoint-hold/);
        const bare = await server.hold({ title: "And version 3?" });
        await ann.moves((await server.opened(bare.holdId)).path);
        await ann.button("Accept").waitFor();
        assert.equal(await ann.page.getByText("Nothing is attached").count(), 0, "there is no description to speak of");
    });
});
