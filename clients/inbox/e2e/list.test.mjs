//! The list: keyboard, bulk decisions, live changes, and the position after a reload.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate, questions } from "../harness/workflows.mjs";

const title = (person) => person.page.locator(".item-title");

onEachDatabase("the list", (server) => {
    story("items are found, opened, accepted and rejected with the keyboard only", async (openBrowser) => {
        const interrupts = [];
        for (const id of ["first", "second", "third"]) interrupts.push(await server.openInterrupt(gate(id)));
        const ann = await openBrowser(server);
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
        await ann.page.waitForURL(`**${interrupts[0].path}\\?interrupt=*`);
        await ann.button("Accept").waitFor();
        await keyboard.press("a");
        await keyboard.press("Enter");
        await ann.waitForText("You accepted this.");
        await server.waitForStatus(interrupts[0], "completed");

        await keyboard.press("i");
        await ann.page.waitForURL(/\/inbox(\?|$)/);
        await title(ann).filter({ hasText: "Is first good?" }).waitFor({ state: "detached" });
        await title(ann).nth(1).waitFor();
        // The focus is at the same position, on the next item.
        if ((await focused()) !== "Is second good?") await keyboard.press("j");
        assert.equal(await focused(), "Is second good?");
        await keyboard.press("r");
        await ann.page.getByRole("dialog", { name: "Reject 1 item?" }).waitFor();
        await keyboard.press("Escape");
        assert.equal((await server.readInterrupt(interrupts[1])).status, "open", "a single key does not reject");
        await keyboard.press("r");
        await ann.page.getByRole("dialog").waitFor();
        await keyboard.press("Enter");
        await ann.waitForText("1 done");
        await keyboard.press("Enter");
        await server.waitForStatus(interrupts[1], "failed");
        await title(ann).filter({ hasText: "Is second good?" }).waitFor({ state: "detached" });

        await keyboard.press("?");
        await ann.page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
        await ann.waitForText("Accept the item or the selected items (asks first)");
        await ann.checkAccess("the help");
        await keyboard.press("a");
        await keyboard.press("Escape");
        await ann.page.getByRole("dialog").waitFor({ state: "detached" });
        assert.equal((await server.readInterrupt(interrupts[2])).status, "open", "shortcuts are off while a dialog is open");
        await server.answer(interrupts[2], { action: "accept" });
    });

    story("three items are accepted together, and an item that was answered in the meantime has its own result", async (openBrowser) => {
        const interrupts = [];
        for (const id of ["bulk-a", "bulk-b", "bulk-c"]) interrupts.push(await server.openInterrupt(gate(id)));
        const [ann, bob] = [await openBrowser(server), await server.createKey("bob")];
        await ann.go("/inbox");
        for (const id of ["bulk-a", "bulk-b", "bulk-c"]) await ann.page.getByLabel(`Select Is ${id} good?`).check();
        await ann.waitForText("3 selected");
        await ann.press("Accept…");
        await ann.page.getByRole("dialog", { name: "Accept 3 items?" }).waitFor();
        await server.answer(interrupts[1], { action: "reject", feedback: "no" }, bob);
        ann.expectError(/409/);
        await ann.press("Accept 3");
        await ann.waitForText("2 done, 1 already closed");
        await ann.page.locator(".result", { hasText: "bulk-b" }).filter({ hasText: "bob already rejected it" }).waitFor();
        assert.equal(await ann.page.locator(".result", { hasText: "accepted" }).filter({ hasText: "bulk-b" }).count(), 0);
        await ann.press("Close");
        for (const interrupt of [interrupts[0], interrupts[2]]) await server.waitForStatus(interrupt, "completed");
        assert.equal((await server.readInterrupt(interrupts[1])).decision.value.action, "reject");
        await title(ann).filter({ hasText: "bulk-" }).first().waitFor({ state: "detached" });
    });

    story("new items appear without a reload, and answered items are marked", async (openBrowser) => {
        const before = await server.openInterrupt(gate("early"));
        const ann = await openBrowser(server);
        await ann.go("/inbox");
        await title(ann).filter({ hasText: "Is early good?" }).waitFor();
        await ann.page.evaluate(() => (window.isSame = true));
        const late = await server.openInterrupt(gate("late"));
        const shown = title(ann).filter({ hasText: "Is late good?" });
        await ann.button(/^\d+\+? new$/).or(shown).first().waitFor();
        if ((await shown.count()) === 0) await ann.page.keyboard.press("n");
        await shown.waitFor();
        await server.answer(before, { action: "accept" });
        await ann.page.locator(".item", { hasText: "Is early good?" }).filter({ hasText: "No longer pending" })
            .or(ann.page.locator(".item-list:not(:has-text('Is early good?'))")).first().waitFor();
        assert.equal(await ann.page.evaluate(() => window.isSame), true, "the page was not reloaded");
        await server.answer(late, { action: "accept" });
    });

    story("while the server is unreachable, the list shows that it may be out of date", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("kept"));
        const ann = await openBrowser(server);
        ann.expectError(/ERR_FAILED/);
        let isAway = false;
        await ann.page.route(/\/v1\/interrupts(\/stream|:counts)/, (route) => (isAway ? route.abort() : route.continue()));
        await ann.go("/inbox");
        await title(ann).filter({ hasText: "Is kept good?" }).waitFor();
        isAway = true;
        await ann.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
        const warning = ann.page.locator("main").getByText("The server cannot be reached. The list may be out of date. Retrying every 15 seconds.");
        await warning.waitFor();
        assert.equal(await title(ann).filter({ hasText: "Is kept good?" }).count(), 1, "the items stay");
        isAway = false;
        await warning.waitFor({ state: "detached" });
        await server.answer(interrupt, { action: "accept" });
    });

    story("filters, search and position survive a reload and the back button", async (openBrowser) => {
        const asked = await server.openInterrupt(questions("what", [{ id: "a", question: "What?" }]));
        const gates = [await server.openInterrupt(gate("needle")), await server.openInterrupt(gate("straw"))];
        const ann = await openBrowser(server);
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
        for (const interrupt of gates) await server.answer(interrupt, { action: "accept" });
        await server.answer(asked, { answers: { a: "that" } });
    });

    story("of two concurrent answers one decides, and the other principal is informed", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("raced"));
        const people = [await openBrowser(server, { key: await server.createKey("ann") }), await openBrowser(server, { key: await server.createKey("bob") })];
        for (const person of people) {
            person.expectError(/409/);
            await person.go(interrupt.path);
            await person.button("Accept").waitFor();
        }
        await Promise.all(people.map((person) => person.button("Accept").click()));
        const won = /You accepted this\./;
        const lost = /This is already decided\./;
        const read = (person, words) => person.page.locator("main").getByText(words);
        await Promise.all(people.map((person) => read(person, won).or(read(person, lost)).first().waitFor()));
        const texts = await Promise.all(people.map((person) => person.page.locator("main").innerText()));
        assert.deepEqual([texts.filter((text) => won.test(text)).length, texts.filter((text) => lost.test(text)).length], [1, 1]);
        const winner = texts.findIndex((text) => won.test(text));
        const name = ["ann", "bob"][winner];
        assert.equal((await server.readInterrupt(interrupt)).decision.by, name);
        await people[1 - winner].waitForText(new RegExp(`${name} accepted this`));
        assert.equal(await people[1 - winner].button("Accept").count(), 0);
    });

    story("the page shows at most one page of a long list", async (openBrowser) => {
        const amount = 130;
        await Promise.all(Array.from({ length: amount }, (_, index) => server.createHold({ title: `Hold ${index}`, tags: ["many"] })));
        const ann = await openBrowser(server);
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
        assert.equal(seen.size, amount, "every item is on one of the pages");
        await ann.page.locator(".list").filter({ hasText: String(amount) }).waitFor();
    });
});
