//! With the keyboard alone: editing, choosing several, turning pages, and the table of what keys do.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach } from "../harness/server.mjs";
import { gate } from "../harness/workflows.mjs";

const titles = (person) => person.page.locator(".item-title");
const said = (person) => person.page.locator("#announce");
const focused = (person) => person.page.evaluate(() => document.activeElement.innerText ?? "");

/** Goes on with Tab until it is there. */
async function tabsTo(person, words) {
    for (let steps = 0; steps < 40; steps += 1) {
        if ((await focused(person)).startsWith(words)) return;
        await person.page.keyboard.press("Tab");
    }
    assert.fail(`Tab does not lead to ${words}`);
}

onEach("with the keyboard alone", (server) => {
    story("an approval is edited, compared side by side and accepted as it was edited", async (arrives) => {
        const pause = await server.asks(gate("edited", { actions: ["accept", "edit-accept"] }, "First line.\nSecond line."));
        const ann = await arrives(server);
        const { keyboard } = ann.page;
        await ann.go("/inbox?workflow=edited");
        await titles(ann).first().waitFor();
        await keyboard.press("j");
        await keyboard.press("e");
        await ann.page.waitForURL(/[?&]do=edit/);
        await ann.button("Review the change").waitFor();
        assert.equal(await focused(ann), "Edit and accept", "it begins where the form begins");
        await keyboard.press("Tab");
        await keyboard.press("Control+a");
        await keyboard.type("Another line.\nSecond line.");
        assert.equal(await ann.field("Edited version").inputValue(), "Another line.\nSecond line.", "letters are no keys while somebody types");
        await tabsTo(ann, "Review the change");
        await keyboard.press("Enter");
        const sides = ann.page.locator(".review .diff-sides tr", { hasText: "Another" });
        await sides.waitFor();
        assert.match(await sides.innerText(), /First line\.[^]*Another line\./, "before and after stand side by side");
        assert.equal(await focused(ann), "Edit and accept?");
        assert.equal((await server.decision(pause)).status, "open", "nothing is sent before it was looked at");
        await keyboard.press("Escape");
        await ann.field("Edited version").waitFor();
        await tabsTo(ann, "Review the change");
        await keyboard.press("Enter");
        await tabsTo(ann, "Yes: Edit and accept");
        await keyboard.press("Enter");
        await ann.sees("You edited and accepted this.");
        const value = await server.answered(pause);
        assert.deepEqual([value.action, value.editedArtifactData], ["edit-accept", "Another line.\nSecond line."]);
    });

    story("several are selected with x, and approved together", async (arrives) => {
        const pauses = [];
        for (const id of ["chosen-a", "chosen-b", "chosen-c"]) pauses.push(await server.asks(gate(id)));
        const ann = await arrives(server);
        const { keyboard } = ann.page;
        await ann.go("/inbox?q=chosen-");
        await titles(ann).nth(2).waitFor();
        for (const key of ["j", "x", "j", "x", "j", "x", "x"]) await keyboard.press(key);
        await ann.sees("2 selected");
        await keyboard.press("a");
        await ann.page.getByRole("dialog", { name: "Approve 2 items?" }).waitFor();
        assert.deepEqual(await ann.page.locator(".bulk-name").allInnerTexts().then((all) => all.map((name) => name.split(" ")[1])), ["chosen-a", "chosen-b"]);
        assert.equal(await focused(ann), "Approve 2");
        await keyboard.press("Enter");
        await ann.sees("2 done");
        await ann.button("Close").waitFor();
        assert.equal(await focused(ann), "Close");
        await keyboard.press("Enter");
        await ann.page.getByRole("dialog").waitFor({ state: "detached" });
        for (const pause of pauses.slice(0, 2)) await server.becomes(pause, "completed");
        assert.equal((await server.decision(pauses[2])).status, "open", "what was taken out of the selection again waits");
        await titles(ann).filter({ hasText: "chosen-a" }).waitFor({ state: "detached" });
        assert.equal(await focused(ann), "Is chosen-c good?", "the focus is on what is left");
        assert.equal(await ann.page.getByText(/\d selected/).count(), 0);
        await server.answer(pauses[2], { action: "accept" });
    });

    story("the table of keys opens everywhere, turns them off, and gives the focus back", async (arrives) => {
        const pause = await server.asks(gate("helped"));
        const ann = await arrives(server);
        const { keyboard } = ann.page;
        const help = ann.page.getByRole("dialog", { name: "Keyboard shortcuts" });
        const sent = [];
        ann.page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
        await ann.go("/inbox?workflow=helped");
        await titles(ann).first().waitFor();
        await keyboard.press("j");
        await keyboard.press("?");
        await help.getByText("Select the item, or not").waitFor();
        await keyboard.press("Escape");
        await help.waitFor({ state: "detached" });
        assert.equal(await focused(ann), "Is helped good?");
        await keyboard.press("o");
        await ann.button("Accept").waitFor();
        await keyboard.press("?");
        await help.getByText("Accept").first().waitFor();
        await help.getByLabel("Single keys do something").focus();
        await keyboard.press("Space");
        await keyboard.press("Escape");
        await help.waitFor({ state: "detached" });
        await keyboard.press("a");
        await keyboard.press("?");
        await help.waitFor();
        assert.deepEqual(sent, [], "keys that were turned off do nothing");
        await help.getByLabel("Single keys do something").focus();
        await keyboard.press("Space");
        await keyboard.press("Escape");
        await keyboard.press("a");
        await keyboard.press("Enter");
        await ann.sees("You accepted this.");
        assert.equal((await server.answered(pause)).action, "accept");
    });

    story("a single key never decides: it leads to the button, says so, and Enter presses it", async (arrives) => {
        const pause = await server.asks(gate("pressed", { actions: ["accept", "reject"] }));
        const ann = await arrives(server);
        const { keyboard } = ann.page;
        const sent = [];
        ann.page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
        await ann.go(pause.path);
        await ann.button("Accept").waitFor();
        for (const key of ["a", "a", "r"]) await keyboard.press(key);
        await ann.field("Why?").waitFor();
        await keyboard.press("Escape");
        await ann.button("Accept").waitFor();
        await keyboard.press("a");
        assert.match(await focused(ann), /^Accept/);
        assert.equal(await said(ann).innerText(), "Enter: Accept");
        assert.deepEqual([sent, (await server.decision(pause)).status], [[], "open"]);
        await keyboard.press("Enter");
        assert.equal((await server.answered(pause)).action, "accept");
        assert.equal(sent.length, 1);
    });

    story("pages are turned, and while the next one is loading its number does not stand with the items of this one", async (arrives) => {
        const amount = 60;
        await Promise.all(Array.from({ length: amount }, (_, index) => server.hold({ title: `Sheet ${index}`, tags: ["sheets"] })));
        const ann = await arrives(server);
        const { keyboard } = ann.page;
        const pager = ann.page.getByRole("navigation", { name: "Pages" });
        await ann.go("/inbox?whose=all&tag=sheets");
        await titles(ann).nth(49).waitFor();
        const first = await titles(ann).allInnerTexts();
        let come;
        const held = new Promise((resolve) => (come = resolve));
        const asked = ann.page.waitForRequest(/[?&]cursor=/);
        await ann.page.route(/\/v1\/interrupts\?.*cursor=/, async (route) => (await held, route.continue()));
        await keyboard.press("]");
        await asked;
        await pager.getByText("Page 1. Loading…").waitFor();
        assert.deepEqual(await titles(ann).allInnerTexts(), first);
        assert.equal(await ann.page.locator(".item-list").getAttribute("aria-busy"), "true");
        await keyboard.press("]");
        await said(ann).filter({ hasText: "Loading…" }).waitFor();
        come();
        await pager.getByText("Page 2", { exact: true }).waitFor();
        const second = await titles(ann).allInnerTexts();
        assert.deepEqual([second.length, second.filter((one) => first.includes(one))], [amount - 50, []]);
        assert.equal(await focused(ann), second[0], "the focus goes with it");
        assert.equal(await said(ann).innerText(), "Page 2");
        await keyboard.press("]");
        await keyboard.press("[");
        await pager.getByText("Page 1", { exact: true }).waitFor();
        assert.deepEqual(await titles(ann).allInnerTexts(), first);
        await keyboard.press("k");
        assert.equal(await focused(ann), first[0], "before the first page is none");
    });
});
