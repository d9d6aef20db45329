//! The main screens, light and dark, large and on a phone: accessible and without horizontal overflow.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onOneDatabase } from "../harness/server.mjs";
import { gate, questions, refined, talk, unsure } from "../harness/workflows.mjs";

const NOTES = `## Release 2.4

The new importer is **three times faster** and reads files of any size.

- Imports go on after a restart
- Duplicates are found by content
- \`import --dry-run\` shows what would change

| Check | Result |
| --- | --- |
| Tests | 1,204 passed |
| Migration | reversible |
`;

const ORDERS = [{ item: "Standing desk", amount: 4, price: 612.5 }, { item: "Lamp", amount: 12, price: 39 }];

async function fill(server) {
    const hour = 3_600_000;
    const release = { title: "Publish the release notes of 2.4?", description: "They go to **all customers**.", actions: ["accept", "reject", "refine", "edit-accept", "ask"] };
    const interrupts = {
        notes: await server.openInterrupt(gate("release", { ...release, timeoutMs: 26 * hour }, NOTES, "text/markdown")),
        order: await server.openInterrupt(gate("purchase", { title: "Order for the new office", requiredApprovals: 2, timeoutMs: hour / 2 }, ORDERS, "table")),
        question: await server.openInterrupt(questions("intake", [
            { id: "region", question: "Which region does this customer belong to?", schema: { enum: ["Europe", "America", "Asia"] } },
            { id: "note", question: "Anything the team should know?" },
        ])),
        unsure: await server.openInterrupt(unsure("planner")),
        talk: await server.openInterrupt(talk("support")),
        again: await server.openInterrupt(refined("summary")),
    };
    await server.createHold({ title: "Deploy version 2 to production?", tags: ["production"] });
    await server.answer(interrupts.again, { action: "refine", refineFeedback: { scope: "whole", text: "Say it better." } });
    await server.waitForInterrupt(interrupts.again.runId);
    return interrupts;
}

onOneDatabase("screens", (server) => {
    let made;
    const interrupts = () => (made ??= fill(server));

    for (const scheme of ["light", "dark"]) {
        for (const isPhone of [false, true]) {
            const look = `${isPhone ? "phone-" : ""}${scheme}`;
            story(`the list, every interrupt and the timeline: ${look}`, async (openBrowser) => {
                const all = await interrupts();
                const ann = await openBrowser(server, { scheme, isPhone });
                const check = async (what, ready) => {
                    await ready.waitFor();
                    await ann.checkAccess(`${what}, ${look}`);
                    await ann.checkWidth(`${what}, ${look}`);
                    await ann.picture(`${what}-${look}`);
                };
                await ann.go("/inbox?whose=all");
                await check("list", ann.page.locator(".item-title").nth(6));
                for (const [name, { path }] of Object.entries(all)) {
                    await ann.navigate(path);
                    await check(`interrupt-${name}`, ann.page.locator(".decide button").first());
                }
                await ann.navigate(`${all.notes.path}?do=edit`);
                await check("edit", ann.button("Review the change"));
                await ann.navigate("/inbox/runs");
                await check("runs", ann.page.locator(".item-run").nth(6));
                await ann.page.locator("#top .account > summary").click();
                await ann.page.locator(".scopes summary").click();
                await check("account", ann.page.locator(".scopes li").first());
                await ann.navigate(`/inbox/runs/${all.again.runId}`);
                await check("timeline", ann.page.locator(".event-list li").nth(3));
                const { url } = await server.call("POST", `/v1/runs/${all.notes.runId}/interrupts/ask/tokens`, {});
                await ann.go(new URL(url).pathname);
                await check("link", ann.button("Accept"));
                await ann.context.clearCookies();
                ann.expectError(/401/);
                await ann.go("/inbox");
                await check("sign-in", ann.button("Sign in"));
            });
        }
    }

    story("the timeline shows the decision, the drawing and the state at an event", async (openBrowser) => {
        const { again } = await interrupts();
        const ann = await openBrowser(server);
        await ann.go(again.path);
        await ann.page.getByRole("link", { name: "Timeline of the run" }).click();
        await ann.page.waitForURL(`**/inbox/runs/${again.runId}`);
        await ann.waitForText("Say it better.");
        await ann.page.locator("main svg").first().waitFor();
        const events = ann.page.locator(".event-list li");
        const before = await events.count();
        const open = await server.waitForInterrupt(again.runId);
        await server.answer(open, { action: "accept" });
        await ann.page.locator("main").getByText("completed", { exact: true }).first().waitFor();
        assert.ok((await events.count()) > before, "the timeline follows the run");
        await events.first().locator("button").first().click();
        await ann.page.locator(".event-list [aria-expanded=true], .event-list [aria-current], .event-list [aria-pressed=true]").first().waitFor();
    });
});
