//! The list of runs.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate } from "../harness/workflows.mjs";

const row = (person, words) => person.page.locator(".item-run", { hasText: words });
const link = (person, name) => person.page.getByRole("link", { name, exact: true });

onEachDatabase("runs", (server) => {
    story("decided runs are in the list and link to their timelines", async (openBrowser) => {
        const [good, bad] = [await server.openInterrupt(gate("found-again")), await server.openInterrupt(gate("turned-down"))];
        await server.answer(bad, { action: "reject", feedback: "Not now." });
        await server.waitForStatus(bad, "failed");
        const ann = await openBrowser(server);
        await ann.go(good.path);
        await ann.press("Accept");
        await server.waitForStatus(good, "completed");
        await link(ann, "Inbox").click();
        await link(ann, "Show past decisions").waitFor();
        await ann.checkAccess("an empty inbox");
        await ann.picture("empty-light");
        await link(ann, "Show past decisions").click();
        await ann.page.waitForURL("**/inbox/runs");
        await row(ann, "found-again").filter({ hasText: "completed" }).waitFor();
        assert.equal(await link(ann, "Runs").getAttribute("aria-current"), "page");
        assert.deepEqual((await ann.page.locator(".item-run .item-title").allInnerTexts()).map((text) => text.split(" ")[0]), ["turned-down", "found-again"], "newest first");
        await row(ann, "found-again").filter({ hasText: good.runId.slice(-8) }).getByRole("link").click();
        await ann.page.waitForURL(`**/inbox/runs/${good.runId}`);
        await ann.page.locator(".event-list li", { hasText: "Interrupt resolved" }).waitFor();
        await ann.page.goBack();
        await row(ann, "turned-down").getByRole("link").click();
        await ann.waitForText(/Rejected at Ask by bootstrap/);
        await ann.waitForText("Not now.");
        assert.equal(await ann.page.locator(".notice-bad, .node-failed, .span-failed, .chip-bad").count(), 0, "a rejection is not an error");
        await ann.picture("run-rejected-light");
    });

    story("runs are filtered by status, the address keeps the filter, and the keyboard moves through them", async (openBrowser) => {
        const waiting = await server.openInterrupt(gate("still-waits"));
        const over = await server.openInterrupt(gate("given-up"));
        await server.call("POST", `/v1/runs/${over.runId}/cancel`, {});
        await server.waitForStatus(over, "cancelled");
        const ann = await openBrowser(server);
        const { keyboard } = ann.page;
        await ann.go("/inbox/runs");
        await ann.press("Cancelled");
        await row(ann, "still-waits").waitFor({ state: "detached" });
        await ann.page.waitForURL(/status=cancelled/);
        await ann.page.reload();
        await row(ann, "given-up").waitFor();
        assert.equal(await ann.page.locator(".item-run").count(), 1);
        await ann.press("Waiting");
        await row(ann, "given-up").waitFor({ state: "detached" });
        await row(ann, "still-waits").filter({ hasText: "waits for a decision" }).waitFor();
        await ann.checkAccess("runs");
        await keyboard.press("j");
        assert.match(await ann.page.evaluate(() => document.activeElement.innerText), /^still-waits/);
        await keyboard.press("Enter");
        await ann.page.waitForURL(`**/inbox/runs/${waiting.runId}`);
        await server.answer(waiting, { action: "accept" });
    });

    story("a user that may not read runs has no link to them", async (openBrowser) => {
        const dora = await openBrowser(server, { key: await server.createKey("dora", { scopes: ["approvals:respond"] }) });
        dora.expectError(/403/);
        await dora.go("/inbox");
        await dora.page.getByRole("heading", { level: 1 }).waitFor();
        assert.equal(await link(dora, "Runs").count(), 0);
        await dora.go("/inbox/runs");
        await dora.waitForText("Your key may not read runs");
    });
});
