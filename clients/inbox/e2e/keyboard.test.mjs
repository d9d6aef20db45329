//! Keyboard only: editing, selecting several items, turning pages, and the help.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate } from "../harness/workflows.mjs";

const titles = (person) => person.page.locator(".item-title");
const announcement = (person) => person.page.locator("#announce");
const focused = (person) => person.page.evaluate(() => document.activeElement.innerText ?? "");

/** Presses Tab until an element with this text has the focus. */
async function tabsTo(person, words) {
    for (let steps = 0; steps < 40; steps += 1) {
        if ((await focused(person)).startsWith(words)) return;
        await person.page.keyboard.press("Tab");
    }
    assert.fail(`Tab does not lead to ${words}`);
}

onEachDatabase("keyboard only", (server) => {
    story("an approval is edited, compared side by side, and accepted with the edits", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("edited", { actions: ["accept", "edit-accept"] }, "First line.\nSecond line."));
        const ann = await openBrowser(server);
        const { keyboard } = ann.page;
        await ann.go("/inbox?workflow=edited");
        await titles(ann).first().waitFor();
        await keyboard.press("j");
        await keyboard.press("e");
        await ann.page.waitForURL(/[?&]do=edit/);
        await ann.button("Review the change").waitFor();
        assert.equal(await focused(ann), "Edit and accept", "the focus is at the start of the form");
        await keyboard.press("Tab");
        await keyboard.press("Control+a");
        await keyboard.type("Another line.\nSecond line.");
        assert.equal(await ann.field("Edited version").inputValue(), "Another line.\nSecond line.", "typed letters are not shortcuts");
        await tabsTo(ann, "Review the change");
        await keyboard.press("Enter");
        const sides = ann.page.locator(".review .diff-sides tr", { hasText: "Another" });
        await sides.waitFor();
        assert.match(await sides.innerText(), /First line\.[^]*Another line\./, "both versions are side by side");
        assert.equal(await focused(ann), "Edit and accept?");
        assert.equal((await server.readInterrupt(interrupt)).status, "open", "no answer is sent before the review");
        await keyboard.press("Escape");
        await ann.field("Edited version").waitFor();
        await tabsTo(ann, "Review the change");
        await keyboard.press("Enter");
        await tabsTo(ann, "Yes: Edit and accept");
        await keyboard.press("Enter");
        await ann.waitForText("You edited and accepted this.");
        const value = await server.waitForAnswer(interrupt);
        assert.deepEqual([value.action, value.editedArtifactData], ["edit-accept", "Another line.\nSecond line."]);
    });

    story("several items are selected with x and accepted together", async (openBrowser) => {
        const interrupts = [];
        for (const id of ["chosen-a", "chosen-b", "chosen-c"]) interrupts.push(await server.openInterrupt(gate(id)));
        const ann = await openBrowser(server);
        const { keyboard } = ann.page;
        await ann.go("/inbox?q=chosen-");
        await titles(ann).nth(2).waitFor();
        for (const key of ["j", "x", "j", "x", "j", "x", "x"]) await keyboard.press(key);
        await ann.waitForText("2 selected");
        await keyboard.press("a");
        await ann.page.getByRole("dialog", { name: "Accept 2 items?" }).waitFor();
        assert.deepEqual(await ann.page.locator(".bulk-name").allInnerTexts().then((all) => all.map((name) => name.split(" ")[1])), ["chosen-a", "chosen-b"]);
        assert.equal(await focused(ann), "Accept 2");
        await keyboard.press("Enter");
        await ann.waitForText("2 done");
        await ann.button("Close").waitFor();
        assert.equal(await focused(ann), "Close");
        await keyboard.press("Enter");
        await ann.page.getByRole("dialog").waitFor({ state: "detached" });
        for (const interrupt of interrupts.slice(0, 2)) await server.waitForStatus(interrupt, "completed");
        assert.equal((await server.readInterrupt(interrupts[2])).status, "open", "a deselected item stays open");
        await titles(ann).filter({ hasText: "chosen-a" }).waitFor({ state: "detached" });
        assert.equal(await focused(ann), "Is chosen-c good?", "the focus is on the remaining item");
        assert.equal(await ann.page.getByText(/\d selected/).count(), 0);
        await server.answer(interrupts[2], { action: "accept" });
    });

    story("the help opens in every view, turns shortcuts off, and returns the focus", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("helped"));
        const ann = await openBrowser(server);
        const { keyboard } = ann.page;
        const help = ann.page.getByRole("dialog", { name: "Keyboard shortcuts" });
        const sent = [];
        ann.page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
        await ann.go("/inbox?workflow=helped");
        await titles(ann).first().waitFor();
        await keyboard.press("j");
        await keyboard.press("?");
        await help.getByText("Select or deselect the item").waitFor();
        await keyboard.press("Escape");
        await help.waitFor({ state: "detached" });
        assert.equal(await focused(ann), "Is helped good?");
        await keyboard.press("o");
        await ann.button("Accept").waitFor();
        await keyboard.press("?");
        await help.getByText("Accept").first().waitFor();
        await help.getByLabel("Enable single-key shortcuts").focus();
        await keyboard.press("Space");
        await keyboard.press("Escape");
        await help.waitFor({ state: "detached" });
        await keyboard.press("a");
        await keyboard.press("?");
        await help.waitFor();
        assert.deepEqual(sent, [], "shortcuts that are turned off have no effect");
        await help.getByLabel("Enable single-key shortcuts").focus();
        await keyboard.press("Space");
        await keyboard.press("Escape");
        await keyboard.press("a");
        await keyboard.press("Enter");
        await ann.waitForText("You accepted this.");
        assert.equal((await server.waitForAnswer(interrupt)).action, "accept");
    });

    story("a single key never decides: it focuses the button, announces it, and Enter presses it", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("pressed", { actions: ["accept", "reject"] }));
        const ann = await openBrowser(server);
        const { keyboard } = ann.page;
        const sent = [];
        ann.page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
        await ann.go(interrupt.path);
        await ann.button("Accept").waitFor();
        for (const key of ["a", "a", "r"]) await keyboard.press(key);
        await ann.field("Reason").waitFor();
        await keyboard.press("Escape");
        await ann.button("Accept").waitFor();
        await keyboard.press("a");
        assert.match(await focused(ann), /^Accept/);
        assert.equal(await announcement(ann).innerText(), "Enter: Accept");
        assert.deepEqual([sent, (await server.readInterrupt(interrupt)).status], [[], "open"]);
        await keyboard.press("Enter");
        assert.equal((await server.waitForAnswer(interrupt)).action, "accept");
        assert.equal(sent.length, 1);
    });

    story("pages are turned, and the page number always belongs to the shown items", async (openBrowser) => {
        const amount = 60;
        await Promise.all(Array.from({ length: amount }, (_, index) => server.createHold({ title: `Sheet ${index}`, tags: ["sheets"] })));
        const ann = await openBrowser(server);
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
        await announcement(ann).filter({ hasText: "Loading…" }).waitFor();
        come();
        await pager.getByText("Page 2", { exact: true }).waitFor();
        const second = await titles(ann).allInnerTexts();
        assert.deepEqual([second.length, second.filter((one) => first.includes(one))], [amount - 50, []]);
        assert.equal(await focused(ann), second[0], "the focus moves to the new page");
        assert.equal(await announcement(ann).innerText(), "Page 2");
        await keyboard.press("]");
        await keyboard.press("[");
        await pager.getByText("Page 1", { exact: true }).waitFor();
        assert.deepEqual(await titles(ann).allInnerTexts(), first);
        await keyboard.press("k");
        assert.equal(await focused(ann), first[0], "the first page has no previous page");
    });
});
