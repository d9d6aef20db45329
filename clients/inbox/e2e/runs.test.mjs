//! The list of runs: what was decided is found again.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach } from "../harness/server.mjs";
import { gate } from "../harness/workflows.mjs";

const row = (person, words) => person.page.locator(".item-run", { hasText: words });
const link = (person, name) => person.page.getByRole("link", { name, exact: true });

onEach("runs", (server) => {
    story("what was decided is among the runs, and leads to its timeline", async (arrives) => {
        const [good, bad] = [await server.asks(gate("found-again")), await server.asks(gate("turned-down"))];
        await server.answer(bad, { action: "reject", feedback: "Not now." });
        await server.becomes(bad, "failed");
        const ann = await arrives(server);
        await ann.go(good.path);
        await ann.press("Accept");
        await server.becomes(good, "completed");
        await link(ann, "Inbox").click();
        await link(ann, "See what was decided").waitFor();
        await ann.checkAccess("an empty inbox");
        await ann.picture("empty-light");
        await link(ann, "See what was decided").click();
        await ann.page.waitForURL("**/inbox/runs");
        await row(ann, "found-again").filter({ hasText: "completed" }).waitFor();
        assert.equal(await link(ann, "Runs").getAttribute("aria-current"), "page");
        assert.deepEqual((await ann.page.locator(".item-run .item-title").allInnerTexts()).map((text) => text.split(" ")[0]), ["turned-down", "found-again"], "newest first");
        await row(ann, "found-again").filter({ hasText: good.runId.slice(-8) }).getByRole("link").click();
        await ann.page.waitForURL(`**/inbox/runs/${good.runId}`);
        await ann.page.locator(".event-list li", { hasText: "Answered" }).waitFor();
        await ann.page.goBack();
        await row(ann, "turned-down").getByRole("link").click();
        await ann.sees(/Rejected at Ask by bootstrap/);
        await ann.sees("Not now.");
        assert.equal(await ann.page.locator(".notice-bad, .node-failed, .span-failed, .chip-bad").count(), 0, "nothing has broken");
        await ann.picture("run-rejected-light");
    });

    story("runs are narrowed by how they stand, which the address keeps, and gone through with the keyboard", async (arrives) => {
        const waiting = await server.asks(gate("still-waits"));
        const over = await server.asks(gate("given-up"));
        await server.does("POST", `/v1/runs/${over.runId}/cancel`, {});
        await server.becomes(over, "cancelled");
        const ann = await arrives(server);
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

    story("whoever may not read runs is not led there", async (arrives) => {
        const dora = await arrives(server, { key: await server.person("dora", { scopes: ["approvals:respond"] }) });
        dora.expects(/403/);
        await dora.go("/inbox");
        await dora.page.getByRole("heading", { level: 1 }).waitFor();
        assert.equal(await link(dora, "Runs").count(), 0);
        await dora.go("/inbox/runs");
        await dora.sees("Your key may not read runs");
    });
});
