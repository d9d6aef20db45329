//! The page of a signed link, for users without an account.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase, waitUntil } from "../harness/server.mjs";
import { gate, questions } from "../harness/workflows.mjs";

async function link(server, interrupt, wanted = {}) {
    const { url } = await server.call("POST", `/v1/runs/${interrupt.runId}/interrupts/${interrupt.nodeId}/tokens`, wanted);
    return server.url + new URL(url).pathname;
}

const visitor = (openBrowser, server, more) => openBrowser(server, { key: null, ...more });

onEachDatabase("signed links", (server) => {
    story("opening a link decides nothing, and only the first confirmed answer decides", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("linked", {}, "Please **read** me.", "text/markdown"));
        const url = await link(server, interrupt, { for: "carol" });
        const carol = await visitor(openBrowser, server);
        const other = await visitor(openBrowser, server);
        await carol.go(url);
        await carol.waitForText("This link answers on behalf of carol.");
        await carol.waitForText("Opening this page decides nothing.");
        await carol.waitForText(/This link expires in \d/);
        await carol.page.reload();
        await other.go(url);
        await other.button("Accept").waitFor();
        await carol.checkAccess("link");
        await carol.picture("link-light");
        await carol.press("Accept");
        await carol.button("Yes: Accept").waitFor();
        assert.equal((await server.readInterrupt(interrupt)).status, "open", "the answer is confirmed before it is sent");
        await carol.press("Back");
        await carol.press("Accept");
        await carol.press("Yes: Accept");
        await carol.waitForText("Thank you. You can close this page.");
        assert.equal(await carol.page.getByText("This link expires in").count(), 0, "the expiry is not shown after the answer");
        await carol.picture("link-decided-light");
        const { decision } = await server.readInterrupt(interrupt);
        assert.deepEqual([decision.value.action, decision.by], ["accept", "carol"]);
        await server.waitForStatus(interrupt, "completed");

        other.expectError(/409/);
        await other.press("Reject");
        await other.waitForText("It cannot be undone.");
        await other.press("Reject");
        if (await other.button("Yes: Reject").count()) await other.press("Yes: Reject");
        await other.waitForText("This is already decided.");
        await other.waitForText("Already answered");
        const late = await visitor(openBrowser, server);
        late.expectError(/409/);
        await late.go(url);
        await late.waitForText("Already answered");
        await late.waitForText("Is linked good?");
        await late.waitForText("carol accepted this");
        assert.equal(await late.button(/Accept|Reject/).count(), 0);
    });

    story("questions are answered over a link", async (openBrowser) => {
        const interrupt = await server.openInterrupt(questions("linked-questions", [{ id: "why", question: "Why?" }]));
        const carol = await visitor(openBrowser, server);
        await carol.go(await link(server, interrupt));
        await carol.field("Why?").fill("Because.");
        await carol.press("Send the answers");
        await carol.press("Yes: Send the answers");
        await carol.waitForText("Thank you.");
        assert.deepEqual((await server.readInterrupt(interrupt)).decision.value.answers, { why: "Because." });
    });

    story("a view-only link has no buttons", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("looked-at"));
        const carol = await visitor(openBrowser, server);
        await carol.go(await link(server, interrupt, { intent: "inspect" }));
        await carol.waitForText("This link is for viewing only.");
        assert.equal(await carol.button(/Accept|Reject/).count(), 0);
        await server.answer(interrupt, { action: "accept" });
    });

    story("expired, cancelled and invalid links have their messages", async (openBrowser) => {
        const carol = await visitor(openBrowser, server);
        carol.expectError(/404|409|410|422/);
        const slow = await server.openInterrupt(gate("slow"));
        const short = await link(server, slow, { expiresInSeconds: 1 });
        await waitUntil("the link has expired", async () => (await fetch(short)).status === 410);
        await carol.go(short);
        await carol.waitForText("This link has expired");
        await carol.checkAccess("an expired link");
        const url = await link(server, slow);
        await server.call("POST", `/v1/runs/${slow.runId}/cancel`, {});
        await server.waitForStatus(slow, "cancelled");
        await carol.go(url);
        await carol.waitForText("You do not need to do anything.");
        await carol.go(`${url.slice(0, -3)}AAA`);
        await carol.waitForText("Unknown link");
        await carol.go("/v1/interrupts/garbage");
        await carol.waitForText("Unknown link");
    });
});
