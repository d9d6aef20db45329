//! Assignees: quorums, other assignees, requesters, and roles.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate, governed } from "../harness/workflows.mjs";

/** The refresh interval of the page of an open interrupt. */
const FRESH_MS = 8_000;

const title = (person) => person.page.locator(".item-title");
const ways = (person) => person.page.locator(".decide-bar button");

onEachDatabase("assignees", (server) => {
    story("a principal that has voted in another window cannot change the vote", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("twice", { requiredApprovals: 2 }));
        const key = await server.createKey("dora");
        const dora = await openBrowser(server, { key });
        dora.expectError(/409/);
        await dora.go(interrupt.path);
        await dora.button("Reject").waitFor();
        await server.answer(interrupt, { action: "accept" }, key);
        await dora.press("Reject");
        await dora.press("Reject");
        await dora.waitForText("You have already voted. A counted vote cannot be changed.");
        await dora.waitForText("You have voted: accepted.");
        assert.equal(await ways(dora).count(), 0);
        const { status, votes } = await server.readInterrupt(interrupt);
        assert.deepEqual([status, votes.map(({ action }) => action)], ["open", ["accept"]]);
        await server.answer(interrupt, { action: "accept" });
    });

    story("an interrupt of another assignee is in the list of all, and cannot be decided", async (openBrowser) => {
        const [bob, cleo] = [await openBrowser(server, { key: await server.createKey("bob") }), await openBrowser(server, { key: await server.createKey("cleo") })];
        bob.expectError(/403/);
        for (const person of [bob, cleo]) await person.go("/inbox");
        for (const [id, config] of [["listed", { approversList: ["cleo"] }], ["audience", { approversList: ["cleo"], audience: { subjects: ["eve"] } }]]) {
            const [theirs, ours] = [await server.openInterrupt(gate(`theirs-${id}`, config)), await server.openInterrupt(gate(`ours-${id}`))];
            const hers = (person) => title(person).filter({ hasText: `Is theirs-${id} good?` });
            await bob.navigate("/inbox");
            await title(bob).filter({ hasText: `Is ours-${id} good?` }).waitFor();
            assert.equal(await hers(bob).count(), 0, "bob is not an assignee");
            await bob.page.keyboard.press("m");
            await hers(bob).click();
            await bob.page.locator(".people", { hasText: "cleo" }).waitFor();
            await bob.waitForText("You are not listed.");
            await bob.press("Accept");
            await bob.waitForText("You may not decide this.");
            await bob.waitForText(/The server says: /);
            assert.equal(await bob.button("Send again").count(), 0, "a retry would not help");
            assert.equal((await server.readInterrupt(theirs)).status, "open");

            await cleo.navigate("/inbox");
            await hers(cleo).click();
            await cleo.waitForText("cleo (you)");
            await cleo.press("Accept");
            await cleo.waitForText("You accepted this.");
            assert.equal((await server.readInterrupt(theirs)).decision.by, "cleo");
            await server.answer(ours, { action: "accept" });
        }
    });

    story("a requester may not decide if another person must", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("requested", { requesterMayNotApprove: true, actions: ["accept", "reject", "ask"] }));
        const ann = await openBrowser(server);
        await ann.go(interrupt.path);
        await ann.waitForText("You requested this. Another person must decide.");
        assert.deepEqual(await ways(ann).allInnerTexts(), ["Ask a question"]);
        await ann.page.keyboard.press("a");
        assert.equal((await server.readInterrupt(interrupt)).status, "open");
        await server.answer(interrupt, { action: "accept" }, await server.createKey("bob"));
    });

    story("a governed gate is accepted only with its role, and overridden with a reason", async (openBrowser) => {
        const config = { requiredRole: "release-manager", override: { requiredRole: "owner" } };
        const interrupt = await server.openInterrupt(governed("deploy", config));
        const bob = await openBrowser(server, { key: await server.createKey("bob") });
        bob.expectError(/403/);
        await bob.go(interrupt.path);
        await bob.waitForText("Requires the role release-manager.");
        await bob.press("Accept");
        await bob.field("Reason").fill("I want to.");
        await bob.press("Accept");
        await bob.waitForText("You may not decide this.");
        assert.equal(await bob.field("Reason").inputValue(), "I want to.", "the entered text stays");
        assert.equal((await server.readInterrupt(interrupt)).status, "open");

        const rita = await openBrowser(server, { key: await server.createKey("rita", { roles: ["release-manager"] }) });
        await rita.go("/inbox");
        await title(rita).filter({ hasText: "May deploy go on?" }).click();
        await rita.press("Accept");
        await rita.field("Reason").fill("It is tested.");
        await rita.press("Accept");
        await rita.waitForText("You accepted this.");
        await server.waitForStatus(interrupt, "completed");
        const { decision, reason } = await server.waitForAnswer(interrupt);
        assert.deepEqual([decision, reason], ["granted", "It is tested."]);
        await rita.page.getByRole("link", { name: "Timeline of the run" }).first().click();
        await rita.page.locator(".event-list li", { hasText: "Authorization checked" }).waitFor();
        await rita.page.locator(".event-list li", { hasText: "Accepted" }).waitFor();

        const again = await server.startRun("deploy");
        const olga = await openBrowser(server, { key: await server.createKey("olga", { roles: ["owner"] }) });
        await olga.go(again.path);
        await olga.press("Override");
        await olga.press("Override");
        assert.equal(await olga.field("Reason").getAttribute("aria-invalid"), "true");
        assert.equal((await server.readInterrupt(again)).status, "open", "an override requires a reason");
        await olga.field("Reason").fill("The site is down.");
        await olga.press("Override");
        await olga.waitForText("You overrode this.");
        await server.waitForStatus(again, "completed");
        const { decision: overridden, reason: why } = await server.waitForAnswer(again);
        assert.deepEqual([overridden, why], ["overridden", "The site is down."]);
    });

    story("with a quorum of two, both see the first vote, and the second completes the run", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("twofold", { requiredApprovals: 2 }));
        const [ann, bob] = [await openBrowser(server, { key: await server.createKey("ann") }), await openBrowser(server, { key: await server.createKey("bob") })];
        await bob.installClock();
        for (const person of [ann, bob]) {
            await person.go(interrupt.path);
            await person.button("Accept").waitFor();
            await person.waitForText("0 of 2 approvals");
        }
        await ann.press("Accept");
        await ann.waitForText("Your vote was counted. More votes are required.");
        await ann.waitForText("1 of 2 approvals");
        assert.equal(await ways(ann).count(), 0);
        assert.equal((await server.readInterrupt(interrupt)).status, "open", "one vote is not enough");

        await bob.advanceClock(FRESH_MS);
        await bob.waitForText("1 of 2 approvals");
        await bob.page.locator(".votes li", { hasText: "ann: accepted" }).waitFor();
        await ann.page.reload();
        await ann.waitForText("You have voted: accepted. More votes are required.");
        await ann.page.keyboard.press("a");
        await ann.page.keyboard.press("r");
        assert.equal(await ann.page.locator(".decide button").count(), 0, "a principal cannot vote twice");
        await bob.navigate("/inbox?whose=all");
        await bob.page.locator(".item", { hasText: "Is twofold good?" }).filter({ hasText: "1 of 2 approvals" }).waitFor();

        await bob.navigate(interrupt.path);
        await bob.press("Accept");
        await bob.waitForText("You accepted this.");
        await server.waitForStatus(interrupt, "completed");
        const { quorum } = (await server.readInterrupt(interrupt)).decision.value;
        assert.deepEqual(quorum.votes.map(({ decidedBy, action }) => [decidedBy, action]), [["ann", "accept"], ["bob", "accept"]]);
        await ann.page.reload();
        await ann.waitForText("2 of 2 approvals");
        await ann.waitForText("bob accepted this");
        assert.equal(await ann.page.getByText("More votes are required.").count(), 0);
    });
});
