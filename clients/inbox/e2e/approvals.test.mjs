//! Approvals and forms, decided in the browser and checked on the server.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate, interruptNode, questions, refined } from "../harness/workflows.mjs";

onEachDatabase("approvals and forms", (server) => {
    story("an approval is rejected with a reason", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("rejected", {}, "# Heading\n\n- one\n- two", "text/markdown"));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.page.locator(".untrusted li", { hasText: "two" }).waitFor();
        await ann.press("Reject");
        await ann.field("Reason").fill("Too early.");
        await ann.press("Reject");
        await ann.waitForText("You rejected this.");
        assert.equal(await ann.page.locator("#announce").innerText(), "You rejected this.", "screen readers get the confirmation");
        const value = await server.waitForAnswer(interrupt);
        assert.deepEqual([value.action, value.feedback], ["reject", "Too early."]);
        await server.waitForStatus(interrupt, "failed");
    });

    story("an approval with requested changes opens again with the differences, and is edited and accepted", async (openBrowser) => {
        const interrupt = await server.openInterrupt(refined("refined"));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.press("Request changes");
        await ann.press("Request changes");
        await ann.waitForText("Describe the changes, or add a tag.");
        assert.equal(await ann.page.locator("main").getByText("Describe the changes, or add a tag.").count(), 1, "the message appears once");
        assert.equal(await ann.page.evaluate(() => document.activeElement.localName), "textarea", "the field has the focus");
        await ann.picture("refine-light");
        await ann.press("Add an item");
        await ann.page.getByRole("textbox").last().fill("tone");
        await ann.field("Requested changes").fill("Say it better.");
        await ann.press("Request changes");
        const requested = await server.waitForAnswer(interrupt);
        assert.deepEqual([requested.action, requested.refineFeedback], ["refine", { scope: "whole", text: "Say it better.", tags: ["tone"] }]);

        const again = await server.waitForInterrupt(interrupt.runId);
        assert.notEqual(again.interruptId, interrupt.interruptId);
        await ann.go(again.path);
        await ann.waitForText("Changes since the previous version");
        await ann.waitForText("Say it better.");
        await ann.press("Edit and accept");
        await ann.press("Review the change");
        await ann.waitForText("You made no changes.");
        await ann.press("Back");
        await ann.field("Edited version").fill("Mine.\nSecond line.");
        await ann.press("Review the change");
        await ann.waitForText("Your changes");
        await ann.press("Yes: Edit and accept");
        await ann.waitForText("You edited and accepted this.");
        const value = await server.waitForAnswer(again);
        assert.deepEqual([value.action, value.editedArtifactData], ["edit-accept", "Mine.\nSecond line."]);
        await server.waitForStatus(interrupt, "completed");
    });

    story("only the actions of the gate are shown", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("few", { actions: ["accept", "ask"] }));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.button("Accept").waitFor();
        const names = await ann.page.locator(".decide-bar button").allInnerTexts();
        assert.deepEqual(names.map((name) => name.replace(/\s\w$/, "")), ["Accept", "Ask a question"]);
        await ann.press("Ask a question");
        await ann.field("Your question").fill("Since when?");
        await ann.press("Ask a question");
        await ann.waitForText("Your question was sent.");
        await ann.waitForText("Since when?");
        assert.equal((await server.readInterrupt(interrupt)).status, "open");
    });

    story("all questions are answered in one form", async (openBrowser) => {
        const interrupt = await server.openInterrupt(questions("asked", [
            { id: "name", question: "What is it called?" },
            { id: "amount", question: "How many?", schema: { type: "integer", minimum: 1 } },
        ]));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.field("What is it called?").fill("Holdpoint");
        await ann.press("Send the answers");
        assert.equal(await ann.field("How many?").getAttribute("aria-invalid"), "true");
        assert.equal((await server.readInterrupt(interrupt)).status, "open", "no answer was sent");
        await ann.field("How many?").fill("3");
        await ann.press("Send the answers");
        await ann.waitForText("You answered this.");
        assert.deepEqual((await server.waitForAnswer(interrupt)).answers, { name: "Holdpoint", amount: 3 });
    });

    story("a custom interrupt has a form for its schema, with errors at the fields", async (openBrowser) => {
        const resumeSchema = {
            type: "object", required: ["email", "size"],
            properties: {
                email: { type: "string", format: "email", title: "Mail address" },
                size: { enum: ["small", "large"], title: "Size" },
                isUrgent: { type: "boolean", title: "Urgent" },
                parts: { type: "array", title: "Parts", items: { type: "string", title: "Part" } },
                place: { type: "object", title: "Database", properties: { room: { type: "integer", title: "Room", minimum: 1, maximum: 9 } } },
            },
        };
        const interrupt = await server.openInterrupt(interruptNode("formed", { kind: "custom", data: { customKind: "place", message: "Where to?" }, resumeSchema }));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.field("Mail address").fill("no-address");
        await ann.press("Add Database");
        await ann.field("Room").fill("12");
        await ann.press("Send");
        for (const label of ["Mail address", "Room"]) {
            const field = ann.field(label);
            assert.equal(await field.getAttribute("aria-invalid"), "true", label);
            const about = await field.getAttribute("aria-describedby");
            const words = await ann.page.locator(about.split(" ").map((id) => `[id="${id}"]`).join(",")).allInnerTexts();
            assert.match(words.join(" "), label === "Room" ? /9/ : /mail/i, "the error belongs to its field");
        }
        assert.equal((await server.readInterrupt(interrupt)).status, "open", "no answer was sent");
        await ann.field("Mail address").fill("ann@example.test");
        await ann.field("Room").fill("7");
        await ann.page.getByLabel("large").check();
        await ann.page.getByLabel("Yes").check();
        await ann.press("Add Parts");
        await ann.press("Add an item");
        await ann.page.getByLabel("Part", { exact: true }).fill("wheel");
        await ann.press("Send");
        await ann.waitForText("You answered this.");
        const value = await server.waitForAnswer(interrupt);
        assert.deepEqual([value.email, value.size, value.isUrgent, value.parts, value.place], ["ann@example.test", "large", true, ["wheel"], { room: 7 }]);
    });

    story("errors of the server are shown at the field", async (openBrowser) => {
        const resumeSchema = { type: "object", required: ["code"], properties: { code: { type: "string", title: "Code", not: { const: "nothing" } } } };
        const interrupt = await server.openInterrupt(interruptNode("judged", { kind: "custom", data: { customKind: "code", message: "Which code?" }, resumeSchema }));
        const ann = await openBrowser(server);
        ann.expectError(/400|422/);
        await ann.go(interrupt.path);
        const code = ann.page.locator(".decide input, .decide textarea").first();
        await code.fill(await code.evaluate((field) => (field.localName === "textarea" ? '"nothing"' : "nothing")));
        await ann.press("Send");
        await ann.page.locator(".decide [aria-invalid=true], .decide [role=alert]").first().waitFor();
        assert.equal((await server.readInterrupt(interrupt)).status, "open");
    });
});
