//! The list: with the keyboard alone, many at once, live, and in the same place after a reload.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach } from "../harness/server.mjs";
import { gate, questions } from "../harness/workflows.mjs";

const title = (person) => person.page.locator(".item-title");

onEach("the list", (server) => {
    story("with the keyboard alone items are found, opened, approved and rejected", async (arrives) => {
        const pauses = [];
        for (const id of ["first", "second", "third"]) pauses.push(await server.asks(gate(id)));
        const ann = await arrives(server);
        const { keyboard } = ann.page;
        const focused = () => ann.page.evaluate(() => document.activeElement.textContent);
        await ann.go("/inbox?order=oldest");
        await title(ann).nth(2).waitFor();
        await keyboard.press("j");
        await keyboard.press("j");
        assert.equal(await focused(), "Is second good?");
        await keyboard.press("k");
        assert.equal(await focused(), "Is first good?");
        await keyboard.press("Enter");
        await ann.page.waitForURL(`**${pauses[0].path}\\?interrupt=*`);
        await ann.button("Accept").waitFor();
        await keyboard.press("a");
        await keyboard.press("Enter");
        await ann.sees("You accepted this.");
        await server.becomes(pauses[0], "completed");

        await keyboard.press("i");
        await ann.page.waitForURL(/\/inbox(\?|$)/);
        await title(ann).filter({ hasText: "Is first good?" }).waitFor({ state: "detached" });
        await title(ann).nth(1).waitFor();
        // The focus is where it was, on what has come into that place.
        if ((await focused()) !== "Is second good?") await keyboard.press("j");
        assert.equal(await focused(), "Is second good?");
        await keyboard.press("r");
        await ann.page.getByRole("dialog", { name: "Reject 1 item?" }).waitFor();
        await keyboard.press("Escape");
        assert.equal((await server.decision(pauses[1])).status, "open", "nothing is rejected by one key");
        await keyboard.press("r");
        await ann.page.getByRole("dialog").waitFor();
        await keyboard.press("Enter");
        await ann.sees("1 done");
        await keyboard.press("Enter");
        await server.becomes(pauses[1], "failed");
        await title(ann).filter({ hasText: "Is second good?" }).waitFor({ state: "detached" });

        await keyboard.press("?");
        await ann.page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
        await ann.sees("Approve the item or the selected ones (asks first)");
        await ann.checkAccess("the table of keys");
        await keyboard.press("a");
        await keyboard.press("Escape");
        await ann.page.getByRole("dialog").waitFor({ state: "detached" });
        assert.equal((await server.decision(pauses[2])).status, "open", "keys mean nothing below a dialog");
        await server.answer(pauses[2], { action: "accept" });
    });

    story("three are approved together, and of the one that was answered meanwhile nothing else is said", async (arrives) => {
        const pauses = [];
        for (const id of ["bulk-a", "bulk-b", "bulk-c"]) pauses.push(await server.asks(gate(id)));
        const [ann, bob] = [await arrives(server), await server.person("bob")];
        await ann.go("/inbox");
        for (const id of ["bulk-a", "bulk-b", "bulk-c"]) await ann.page.getByLabel(`Select Is ${id} good?`).check();
        await ann.sees("3 selected");
        await ann.press("Approve…");
        await ann.page.getByRole("dialog", { name: "Approve 3 items?" }).waitFor();
        await server.answer(pauses[1], { action: "reject", feedback: "no" }, bob);
        ann.expects(/409/);
        await ann.press("Approve 3");
        await ann.sees("2 done, 1 already over");
        await ann.page.locator(".result", { hasText: "bulk-b" }).filter({ hasText: "already rejected by bob" }).waitFor();
        assert.equal(await ann.page.locator(".result", { hasText: "approved" }).filter({ hasText: "bulk-b" }).count(), 0);
        await ann.press("Close");
        for (const pause of [pauses[0], pauses[2]]) await server.becomes(pause, "completed");
        assert.equal((await server.decision(pauses[1])).decision.value.action, "reject");
        await title(ann).filter({ hasText: "bulk-" }).first().waitFor({ state: "detached" });
    });

    story("what others start appears by itself, and what they answer is marked", async (arrives) => {
        const before = await server.asks(gate("early"));
        const ann = await arrives(server);
        await ann.go("/inbox");
        await title(ann).filter({ hasText: "Is early good?" }).waitFor();
        await ann.page.evaluate(() => (window.isSame = true));
        const late = await server.asks(gate("late"));
        const shown = title(ann).filter({ hasText: "Is late good?" });
        await ann.button(/^\d+\+? new$/).or(shown).first().waitFor();
        if ((await shown.count()) === 0) await ann.page.keyboard.press("n");
        await shown.waitFor();
        await server.answer(before, { action: "accept" });
        await ann.page.locator(".item", { hasText: "Is early good?" }).filter({ hasText: "No longer waiting" })
            .or(ann.page.locator(".item-list:not(:has-text('Is early good?'))")).first().waitFor();
        assert.equal(await ann.page.evaluate(() => window.isSame), true, "the page was not loaded again");
        await server.answer(late, { action: "accept" });
    });

    story("while the server is away the list says so, and that it may be old, until it is there again", async (arrives) => {
        const pause = await server.asks(gate("kept"));
        const ann = await arrives(server);
        ann.expects(/ERR_FAILED/);
        let isAway = false;
        await ann.page.route(/\/v1\/interrupts(\/stream|:counts)/, (route) => (isAway ? route.abort() : route.continue()));
        await ann.go("/inbox");
        await title(ann).filter({ hasText: "Is kept good?" }).waitFor();
        isAway = true;
        await ann.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
        const told = ann.page.locator("main").getByText("The server cannot be reached; what you see may be old. Trying again every 15 seconds.");
        await told.waitFor();
        assert.equal(await title(ann).filter({ hasText: "Is kept good?" }).count(), 1, "what was there stays");
        isAway = false;
        await told.waitFor({ state: "detached" });
        await server.answer(pause, { action: "accept" });
    });

    story("filters, search and place survive a reload and the way back", async (arrives) => {
        const asked = await server.asks(questions("what", [{ id: "a", question: "What?" }]));
        const gates = [await server.asks(gate("needle")), await server.asks(gate("straw"))];
        const ann = await arrives(server);
        await ann.go("/inbox?whose=all");
        await title(ann).nth(2).waitFor();
        await ann.page.locator("#search").fill("needle");
        await title(ann).filter({ hasText: "straw" }).waitFor({ state: "detached" });
        await ann.page.waitForURL(/q=needle/);
        await ann.page.reload();
        await title(ann).first().waitFor();
        assert.deepEqual(await title(ann).allInnerTexts(), ["Is needle good?"]);
        assert.equal(await ann.page.locator("#search").inputValue(), "needle");
        await title(ann).first().click();
        await ann.page.waitForURL(`**${gates[0].path}\\?interrupt=*`);
        await ann.page.reload();
        await ann.button("Accept").waitFor();
        assert.ok(ann.page.url().includes(`${gates[0].path}?interrupt=`));
        await ann.page.goBack();
        await ann.page.waitForURL(/q=needle/);
        await title(ann).first().waitFor();
        assert.deepEqual(await title(ann).allInnerTexts(), ["Is needle good?"]);
        for (const pause of gates) await server.answer(pause, { action: "accept" });
        await server.answer(asked, { answers: { a: "that" } });
    });

    story("two decide one item: one wins, the other is told kindly", async (arrives) => {
        const pause = await server.asks(gate("raced"));
        const people = [await arrives(server, { key: await server.person("ann") }), await arrives(server, { key: await server.person("bob") })];
        for (const person of people) {
            person.expects(/409/);
            await person.go(pause.path);
            await person.button("Accept").waitFor();
        }
        await Promise.all(people.map((person) => person.button("Accept").click()));
        const won = /You accepted this\./;
        const lost = /Somebody was faster: this has been decided meanwhile\./;
        const read = (person, words) => person.page.locator("main").getByText(words);
        await Promise.all(people.map((person) => read(person, won).or(read(person, lost)).first().waitFor()));
        const texts = await Promise.all(people.map((person) => person.page.locator("main").innerText()));
        assert.deepEqual([texts.filter((text) => won.test(text)).length, texts.filter((text) => lost.test(text)).length], [1, 1]);
        const winner = texts.findIndex((text) => won.test(text));
        const name = ["ann", "bob"][winner];
        assert.equal((await server.decision(pause)).decision.by, name);
        await people[1 - winner].sees(new RegExp(`${name} accepted this`));
        assert.equal(await people[1 - winner].button("Accept").count(), 0);
    });

    story("however much waits, the page holds no more than a page of it", async (arrives) => {
        const amount = 130;
        await Promise.all(Array.from({ length: amount }, (_, index) => server.hold({ title: `Hold ${index}`, tags: ["many"] })));
        const ann = await arrives(server);
        await ann.go("/inbox?whose=all&tag=many");
        const seen = new Set();
        for (const expected of [50, 50, 30]) {
            await title(ann).nth(expected - 1).waitFor();
            assert.equal(await title(ann).count(), expected);
            (await title(ann).allInnerTexts()).forEach((text) => seen.add(text));
            if (expected === 50) {
                const first = await title(ann).first().innerText();
                await ann.page.keyboard.press("]");
                await title(ann).first().filter({ hasNotText: new RegExp(`^${first}$`) }).waitFor();
            }
        }
        assert.equal(seen.size, amount, "each of them is on one of the pages");
        await ann.page.locator(".list").filter({ hasText: String(amount) }).waitFor();
    });
});
