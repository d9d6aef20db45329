//! Names of people that want to be more than names, wherever the page says who somebody is.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { checkInert, openAll } from "../harness/inert.mjs";
import { onEach } from "../harness/server.mjs";
import { gate, refined } from "../harness/workflows.mjs";

const IMAGE = "<img/src=x/onerror=window.hit=1>";
const QUOTES = `"'><svg/onload=window.hit=1>&lt;`;
/** Reversed by a mark: with it “nimda” reads “admin”. No new principal has such a name. */
const REVERSED = "\u202enimda\u202c\u200f";
const BOLD = "<b>nimda</b>";
const HIDDEN = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** All of them stand there as they are written, and none reverses what stands around it. */
async function checkNames(person, what, names) {
    await openAll(person);
    const text = await person.page.locator("main").innerText();
    for (const name of names) assert.ok(text.includes(name), `${what}: ${name} is there to read`);
    const whole = await person.page.evaluate(() => document.documentElement.outerHTML + document.title);
    assert.doesNotMatch(whole, HIDDEN, `${what}: marks of direction are made visible`);
    await checkInert(person, what, /./);
}

onEach("names of people", (server) => {
    story("are inert in votes, in what was decided, in the history, in the timeline, in the list and in the bar above", async (arrives) => {
        await assert.rejects(server.person(REVERSED), /U\+202E is not accepted/);
        const [image, quotes, bold] = [await server.person(IMAGE), await server.person(QUOTES), await server.person(BOLD)];
        const voted = await server.asks(gate("named", { requiredApprovals: 3, approversList: [IMAGE, QUOTES, BOLD] }));
        await server.answer(voted, { action: "accept" }, image);
        await server.answer(voted, { action: "accept" }, quotes);
        const again = await server.asks(refined("renamed"));
        await server.answer(again, { action: "refine", refineFeedback: { scope: "whole", text: "Better." } }, bold);
        await server.opened(again.runId);

        const evil = await arrives(server, { key: bold });
        await evil.go("/inbox?whose=all");
        await evil.page.locator(".item-title").nth(1).waitFor();
        await checkNames(evil, "list", [IMAGE, QUOTES, BOLD]);
        await evil.page.locator("#top .account > summary").click();
        await evil.page.locator(".account-menu", { hasText: BOLD }).waitFor();

        await evil.moves(voted.path);
        await evil.page.locator(".votes li").nth(1).waitFor();
        await checkNames(evil, "votes", [IMAGE, QUOTES, `${BOLD} (you)`]);
        await evil.press("Accept");
        await evil.sees("You accepted this.");
        const ann = await arrives(server);
        await ann.go(voted.path);
        await ann.sees(`${BOLD} accepted this`);
        await checkNames(ann, "decided", [IMAGE, QUOTES]);
        await ann.moves(again.path);
        await ann.sees(`${BOLD} had wished:`);
        await checkNames(ann, "history", [`${BOLD}: asked for changes`]);
        for (const { runId } of [voted, again]) {
            await ann.moves(`/inbox/runs/${runId}`);
            await ann.page.locator(".event-line", { hasText: BOLD }).first().click();
            await ann.page.locator(".event-detail", { hasText: BOLD }).waitFor();
            await checkNames(ann, "timeline", runId === voted.runId ? [IMAGE, QUOTES, BOLD] : [BOLD]);
        }
    });

    story("are inert for who was too late, and among several that are decided together", async (arrives) => {
        const key = await server.person(IMAGE);
        const [alone, many] = [await server.asks(gate("alone")), await server.asks(gate("many"))];
        const ann = await arrives(server);
        ann.expects(/409/);
        await ann.go(alone.path);
        await ann.button("Accept").waitFor();
        await server.answer(alone, { action: "reject" }, key);
        await ann.press("Accept");
        await ann.sees(`${IMAGE} rejected this`);
        await checkNames(ann, "too late", [IMAGE]);
        await ann.moves("/inbox?workflow=many");
        await ann.page.getByLabel("Select Is many good?").check();
        await ann.press("Approve…");
        await ann.button("Approve 1").waitFor();
        await server.answer(many, { action: "reject" }, key);
        await ann.press("Approve 1");
        await ann.page.locator(".result", { hasText: `already rejected by ${IMAGE}` }).waitFor();
        await checkInert(ann, "several", /./);
    });
});
