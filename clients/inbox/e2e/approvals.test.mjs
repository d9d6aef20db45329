//! Approvals and forms, decided in the browser; what was decided is asked of the server.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach } from "../harness/server.mjs";
import { gate, interrupt, questions, refined } from "../harness/workflows.mjs";

onEach("approvals and forms", (server) => {
    story("an approval is rejected with a reason", async (arrives) => {
        const pause = await server.asks(gate("rejected", {}, "# Heading\n\n- one\n- two", "text/markdown"));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.page.locator(".untrusted li", { hasText: "two" }).waitFor();
        await ann.press("Reject");
        await ann.field("Why?").fill("Too early.");
        await ann.press("Reject");
        await ann.sees("You rejected this.");
        assert.equal(await ann.page.locator("#announce").innerText(), "You rejected this.", "readers are told what was done");
        const value = await server.answered(pause);
        assert.deepEqual([value.action, value.feedback], ["reject", "Too early."]);
        await server.becomes(pause, "failed");
    });

    story("an approval is sent back, comes again with what has changed, and is edited and accepted", async (arrives) => {
        const pause = await server.asks(refined("refined"));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.press("Ask for changes");
        await ann.press("Ask for changes");
        await ann.sees("Say what should be different, or add a tag.");
        assert.equal(await ann.page.locator("main").getByText("Say what should be different, or add a tag.").count(), 1, "said once");
        assert.equal(await ann.page.evaluate(() => document.activeElement.localName), "textarea", "and it leads there");
        await ann.picture("refine-light");
        await ann.press("Add an item");
        await ann.page.getByRole("textbox").last().fill("tone");
        await ann.field("What should be different?").fill("Say it better.");
        await ann.press("Ask for changes");
        const wished = await server.answered(pause);
        assert.deepEqual([wished.action, wished.refineFeedback], ["refine", { scope: "whole", text: "Say it better.", tags: ["tone"] }]);

        const again = await server.opened(pause.runId);
        assert.notEqual(again.interruptId, pause.interruptId);
        await ann.go(again.path);
        await ann.sees("What has changed since the version before");
        await ann.sees("Say it better.");
        await ann.press("Edit and accept");
        await ann.press("Review the change");
        await ann.sees("You have changed nothing.");
        await ann.press("Back");
        await ann.field("Edited version").fill("Mine.\nSecond line.");
        await ann.press("Review the change");
        await ann.sees("What you change");
        await ann.press("Yes: Edit and accept");
        await ann.sees("You edited and accepted this.");
        const value = await server.answered(again);
        assert.deepEqual([value.action, value.editedArtifactData], ["edit-accept", "Mine.\nSecond line."]);
        await server.becomes(pause, "completed");
    });

    story("only actions that the gate offers are there", async (arrives) => {
        const pause = await server.asks(gate("few", { actions: ["accept", "ask"] }));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.button("Accept").waitFor();
        const names = await ann.page.locator(".decide-bar button").allInnerTexts();
        assert.deepEqual(names.map((name) => name.replace(/\s\w$/, "")), ["Accept", "Ask a question"]);
        await ann.press("Ask a question");
        await ann.field("Your question").fill("Since when?");
        await ann.press("Ask a question");
        await ann.sees("Your question is asked.");
        await ann.sees("Since when?");
        assert.equal((await server.decision(pause)).status, "open");
    });

    story("questions are answered in a form, all of them", async (arrives) => {
        const pause = await server.asks(questions("asked", [
            { id: "name", question: "What is it called?" },
            { id: "amount", question: "How many?", schema: { type: "integer", minimum: 1 } },
        ]));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.field("What is it called?").fill("Holdpoint");
        await ann.press("Send the answers");
        assert.equal(await ann.field("How many?").getAttribute("aria-invalid"), "true");
        assert.equal((await server.decision(pause)).status, "open", "nothing was sent");
        await ann.field("How many?").fill("3");
        await ann.press("Send the answers");
        await ann.sees("You answered this.");
        assert.deepEqual((await server.answered(pause)).answers, { name: "Holdpoint", amount: 3 });
    });

    story("a custom pause has a form of its schema, with errors beside the fields", async (arrives) => {
        const resumeSchema = {
            type: "object", required: ["email", "size"],
            properties: {
                email: { type: "string", format: "email", title: "Mail address" },
                size: { enum: ["small", "large"], title: "Size" },
                isUrgent: { type: "boolean", title: "Urgent" },
                parts: { type: "array", title: "Parts", items: { type: "string", title: "Part" } },
                place: { type: "object", title: "Place", properties: { room: { type: "integer", title: "Room", minimum: 1, maximum: 9 } } },
            },
        };
        const pause = await server.asks(interrupt("formed", { kind: "custom", data: { customKind: "place", message: "Where to?" }, resumeSchema }));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.field("Mail address").fill("nobody");
        await ann.press("Add Place");
        await ann.field("Room").fill("12");
        await ann.press("Send");
        for (const label of ["Mail address", "Room"]) {
            const field = ann.field(label);
            assert.equal(await field.getAttribute("aria-invalid"), "true", label);
            const about = await field.getAttribute("aria-describedby");
            const words = await ann.page.locator(about.split(" ").map((id) => `[id="${id}"]`).join(",")).allInnerTexts();
            assert.match(words.join(" "), label === "Room" ? /9/ : /mail/i, "the error belongs to its field");
        }
        assert.equal((await server.decision(pause)).status, "open", "nothing was sent");
        await ann.field("Mail address").fill("ann@example.test");
        await ann.field("Room").fill("7");
        await ann.page.getByLabel("large").check();
        await ann.page.getByLabel("Yes").check();
        await ann.press("Add Parts");
        await ann.press("Add an item");
        await ann.page.getByLabel("Part", { exact: true }).fill("wheel");
        await ann.press("Send");
        await ann.sees("You answered this.");
        const value = await server.answered(pause);
        assert.deepEqual([value.email, value.size, value.isUrgent, value.parts, value.place], ["ann@example.test", "large", true, ["wheel"], { room: 7 }]);
    });

    story("what only the server judges is told beside the field, too", async (arrives) => {
        const resumeSchema = { type: "object", required: ["code"], properties: { code: { type: "string", title: "Code", not: { const: "nothing" } } } };
        const pause = await server.asks(interrupt("judged", { kind: "custom", data: { customKind: "code", message: "Which code?" }, resumeSchema }));
        const ann = await arrives(server);
        ann.expects(/400|422/);
        await ann.go(pause.path);
        const code = ann.page.locator(".decide input, .decide textarea").first();
        await code.fill(await code.evaluate((field) => (field.localName === "textarea" ? '"nothing"' : "nothing")));
        await ann.press("Send");
        await ann.page.locator(".decide [aria-invalid=true], .decide [role=alert]").first().waitFor();
        assert.equal((await server.decision(pause)).status, "open");
    });
});
