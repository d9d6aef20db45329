//! Injection payloads in the names of principals, in every place where the page shows them.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { checkInert, openAll } from "../harness/inert.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate, refined } from "../harness/workflows.mjs";

const IMAGE = "<img/src=x/onerror=window.hit=1>";
const QUOTES = `"'><svg/onload=window.hit=1>&lt;`;
/** A direction override that shows “nimda” as “admin”. The server rejects such names of new principals. */
const REVERSED = "\u202enimda\u202c\u200f";
const BOLD = "<b>nimda</b>";
const HIDDEN = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** Asserts that the names are shown as they are written, and that no direction mark is left. */
async function checkNames(person, what, names) {
    await openAll(person);
    const text = await person.page.locator("main").innerText();
    for (const name of names) assert.ok(text.includes(name), `${what}: ${name} is visible`);
    const whole = await person.page.evaluate(() => document.documentElement.outerHTML + document.title);
    assert.doesNotMatch(whole, HIDDEN, `${what}: direction marks are made visible`);
    await checkInert(person, what, /./);
}

onEachDatabase("names of principals", (server) => {
    story("names are inert in votes, decisions, the history, the timeline, the list and the top bar", async (openBrowser) => {
        await assert.rejects(server.createKey(REVERSED), /U\+202E is not accepted/);
        const [image, quotes, bold] = [await server.createKey(IMAGE), await server.createKey(QUOTES), await server.createKey(BOLD)];
        const voted = await server.openInterrupt(gate("named", { requiredApprovals: 3, approversList: [IMAGE, QUOTES, BOLD] }));
        await server.answer(voted, { action: "accept" }, image);
        await server.answer(voted, { action: "accept" }, quotes);
        const again = await server.openInterrupt(refined("renamed"));
        await server.answer(again, { action: "refine", refineFeedback: { scope: "whole", text: "Better." } }, bold);
        await server.waitForInterrupt(again.runId);

        const evil = await openBrowser(server, { key: bold });
        await evil.go("/inbox?whose=all");
        await evil.page.locator(".item-title").nth(1).waitFor();
        await checkNames(evil, "list", [IMAGE, QUOTES, BOLD]);
        await evil.page.locator("#top .account > summary").click();
        await evil.page.locator(".account-menu", { hasText: BOLD }).waitFor();

        await evil.navigate(voted.path);
        await evil.page.locator(".votes li").nth(1).waitFor();
        await checkNames(evil, "votes", [IMAGE, QUOTES, `${BOLD} (you)`]);
        await evil.press("Accept");
        await evil.waitForText("You accepted this.");
        const ann = await openBrowser(server);
        await ann.go(voted.path);
        await ann.waitForText(`${BOLD} accepted this`);
        await checkNames(ann, "decided", [IMAGE, QUOTES]);
        await ann.navigate(again.path);
        await ann.waitForText(`${BOLD} requested changes:`);
        await checkNames(ann, "history", [`${BOLD}: requested changes`]);
        for (const { runId } of [voted, again]) {
            await ann.navigate(`/inbox/runs/${runId}`);
            await ann.page.locator(".event-line", { hasText: BOLD }).first().click();
            await ann.page.locator(".event-detail", { hasText: BOLD }).waitFor();
            await checkNames(ann, "timeline", runId === voted.runId ? [IMAGE, QUOTES, BOLD] : [BOLD]);
        }
    });

    story("names are inert in refusals and in the results of bulk decisions", async (openBrowser) => {
        const key = await server.createKey(IMAGE);
        const [alone, many] = [await server.openInterrupt(gate("alone")), await server.openInterrupt(gate("many"))];
        const ann = await openBrowser(server);
        ann.expectError(/409/);
        await ann.go(alone.path);
        await ann.button("Accept").waitFor();
        await server.answer(alone, { action: "reject" }, key);
        await ann.press("Accept");
        await ann.waitForText(`${IMAGE} rejected this`);
        await checkNames(ann, "too late", [IMAGE]);
        await ann.navigate("/inbox?workflow=many");
        await ann.page.getByLabel("Select Is many good?").check();
        await ann.press("Accept…");
        await ann.button("Accept 1").waitFor();
        await server.answer(many, { action: "reject" }, key);
        await ann.press("Accept 1");
        await ann.page.locator(".result", { hasText: `${IMAGE} already rejected it` }).waitFor();
        await checkInert(ann, "several", /./);
    });
});
