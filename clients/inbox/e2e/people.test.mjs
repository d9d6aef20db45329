//! Who decides: several together, somebody else, and whoever holds a role.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach } from "../harness/server.mjs";
import { gate, governed } from "../harness/workflows.mjs";

/** How soon an open pause is looked at again. */
const FRESH_MS = 8_000;

const title = (person) => person.page.locator(".item-title");
const ways = (person) => person.page.locator(".decide-bar button");

onEach("who decides", (server) => {
    story("whoever has voted in another window hears that a vote does not change", async (arrives) => {
        const pause = await server.asks(gate("twice", { requiredApprovals: 2 }));
        const key = await server.person("dora");
        const dora = await arrives(server, { key });
        dora.expects(/409/);
        await dora.go(pause.path);
        await dora.button("Reject").waitFor();
        await server.answer(pause, { action: "accept" }, key);
        await dora.press("Reject");
        await dora.press("Reject");
        await dora.sees("You have voted already, and a vote that was counted does not change.");
        await dora.sees("You have voted: accepted.");
        assert.equal(await ways(dora).count(), 0);
        const { status, votes } = await server.decision(pause);
        assert.deepEqual([status, votes.map(({ action }) => action)], ["open", ["accept"]]);
        await server.answer(pause, { action: "accept" });
    });

    story("what waits for somebody else is among all, and not for others to decide", async (arrives) => {
        const [bob, cleo] = [await arrives(server, { key: await server.person("bob") }), await arrives(server, { key: await server.person("cleo") })];
        bob.expects(/403/);
        for (const person of [bob, cleo]) await person.go("/inbox");
        for (const [id, config] of [["listed", { approversList: ["cleo"] }], ["audience", { approversList: ["cleo"], audience: { subjects: ["eve"] } }]]) {
            const [theirs, ours] = [await server.asks(gate(`theirs-${id}`, config)), await server.asks(gate(`ours-${id}`))];
            const hers = (person) => title(person).filter({ hasText: `Is theirs-${id} good?` });
            await bob.moves("/inbox");
            await title(bob).filter({ hasText: `Is ours-${id} good?` }).waitFor();
            assert.equal(await hers(bob).count(), 0, "it does not wait for bob");
            await bob.page.keyboard.press("m");
            await hers(bob).click();
            await bob.page.locator(".people", { hasText: "cleo" }).waitFor();
            await bob.sees("You are not named here.");
            await bob.press("Accept");
            await bob.sees("You may not decide this.");
            await bob.sees(/The server says: /);
            assert.equal(await bob.button("Send it again").count(), 0, "again would not help");
            assert.equal((await server.decision(theirs)).status, "open");

            await cleo.moves("/inbox");
            await hers(cleo).click();
            await cleo.sees("cleo (you)");
            await cleo.press("Accept");
            await cleo.sees("You accepted this.");
            assert.equal((await server.decision(theirs)).decision.by, "cleo");
            await server.answer(ours, { action: "accept" });
        }
    });

    story("a requester is told that another person must decide", async (arrives) => {
        const pause = await server.asks(gate("requested", { requesterMayNotApprove: true, actions: ["accept", "reject", "ask"] }));
        const ann = await arrives(server);
        await ann.go(pause.path);
        await ann.sees("You requested this, and another person must decide.");
        assert.deepEqual(await ways(ann).allInnerTexts(), ["Ask a question"]);
        await ann.page.keyboard.press("a");
        assert.equal((await server.decision(pause)).status, "open");
        await server.answer(pause, { action: "accept" }, await server.person("bob"));
    });

    story("a governed gate turns others away, is granted by who holds the role, and overridden with a reason", async (arrives) => {
        const config = { requiredRole: "release-manager", override: { requiredRole: "owner" } };
        const pause = await server.asks(governed("deploy", config));
        const bob = await arrives(server, { key: await server.person("bob") });
        bob.expects(/403/);
        await bob.go(pause.path);
        await bob.sees("Takes the role release-manager.");
        await bob.press("Grant");
        await bob.field("Reason").fill("I want to.");
        await bob.press("Grant");
        await bob.sees("You may not decide this.");
        assert.equal(await bob.field("Reason").inputValue(), "I want to.", "what was written stays");
        assert.equal((await server.decision(pause)).status, "open");

        const rita = await arrives(server, { key: await server.person("rita", { roles: ["release-manager"] }) });
        await rita.go("/inbox");
        await title(rita).filter({ hasText: "May deploy go on?" }).click();
        await rita.press("Grant");
        await rita.field("Reason").fill("It is tested.");
        await rita.press("Grant");
        await rita.sees("You granted this.");
        await server.becomes(pause, "completed");
        const { decision, reason } = await server.answered(pause);
        assert.deepEqual([decision, reason], ["granted", "It is tested."]);
        await rita.page.getByRole("link", { name: "Timeline of the run" }).first().click();
        await rita.page.locator(".event-list li", { hasText: "Somebody was turned away" }).waitFor();
        await rita.page.locator(".event-list li", { hasText: "Granted" }).waitFor();

        const again = await server.starts("deploy");
        const olga = await arrives(server, { key: await server.person("olga", { roles: ["owner"] }) });
        await olga.go(again.path);
        await olga.press("Override");
        await olga.press("Override");
        assert.equal(await olga.field("Reason").getAttribute("aria-invalid"), "true");
        assert.equal((await server.decision(again)).status, "open", "an override needs a reason");
        await olga.field("Reason").fill("The site is down.");
        await olga.press("Override");
        await olga.sees("You overrode this.");
        await server.becomes(again, "completed");
        const { decision: overridden, reason: why } = await server.answered(again);
        assert.deepEqual([overridden, why], ["overridden", "The site is down."]);
    });

    story("two must agree: the first vote is told to both and offered no more, the second completes the run", async (arrives) => {
        const pause = await server.asks(gate("twofold", { requiredApprovals: 2 }));
        const [ann, bob] = [await arrives(server, { key: await server.person("ann") }), await arrives(server, { key: await server.person("bob") })];
        await bob.takesClock();
        for (const person of [ann, bob]) {
            await person.go(pause.path);
            await person.button("Accept").waitFor();
            await person.sees("0 of 2 agree");
        }
        await ann.press("Accept");
        await ann.sees("Your vote counts; others must still speak.");
        await ann.sees("1 of 2 agree");
        assert.equal(await ways(ann).count(), 0);
        assert.equal((await server.decision(pause)).status, "open", "one is not enough");

        await bob.passes(FRESH_MS);
        await bob.sees("1 of 2 agree");
        await bob.page.locator(".votes li", { hasText: "ann: accepted" }).waitFor();
        await ann.page.reload();
        await ann.sees("You have voted: accepted. The others are waited for.");
        await ann.page.keyboard.press("a");
        await ann.page.keyboard.press("r");
        assert.equal(await ann.page.locator(".decide button").count(), 0, "nobody is asked twice");
        await bob.moves("/inbox?whose=all");
        await bob.page.locator(".item", { hasText: "Is twofold good?" }).filter({ hasText: "1 of 2 approvals" }).waitFor();

        await bob.moves(pause.path);
        await bob.press("Accept");
        await bob.sees("You accepted this.");
        await server.becomes(pause, "completed");
        const { quorum } = (await server.decision(pause)).decision.value;
        assert.deepEqual(quorum.votes.map(({ decidedBy, action }) => [decidedBy, action]), [["ann", "accept"], ["bob", "accept"]]);
        await ann.page.reload();
        await ann.sees("2 of 2 agree");
        await ann.sees("bob accepted this");
        assert.equal(await ann.page.getByText("The others are waited for.").count(), 0);
    });
});
