//! The page of examples/ag-ui in a browser: the published client, no build step, another origin than the server.

import assert from "node:assert/strict";
import { after, before } from "node:test";
import { Browser } from "../harness/browser.mjs";
import { one } from "../harness/clients.mjs";
import { KEY, serving } from "../harness/server.mjs";
import { serve } from "../../../examples/ag-ui/serve.mjs";

const site = await serve(0);
const server = serving({ options: ["--cors-origin", site.url] });
let browser;
before(async () => (browser = await Browser.start()));
after(async () => {
    site.close();
    await browser.close();
});

one("an approved mail is sent once", async () => {
    const page = await connected("approve");
    await say(page, "please write to them");
    await page.press("Approve");
    await page.sees("the mail is sent", has("#messages", "Sent: "));
    assert.equal(await executions(page), 1);
    assert.match(await page.text("#messages .tool"), /"status":"sent"/);
    await picture(page, "approved");
    page.checkNoErrors();
});

one("a denied mail is not sent", async () => {
    const page = await connected("approve");
    await say(page, "please write to them");
    await page.press("Deny");
    await page.sees("the agent replies to the denial", has("#messages", "Then I do not send it."));
    assert.equal(await executions(page), 0);
    page.checkNoErrors();
});

one("an edited mail is sent with the edits", async () => {
    const page = await connected("edit");
    await say(page, "please write to them");
    await page.fill(".interrupt input[name=to]", "new@example.test");
    await page.fill(".interrupt input[name=subject]", "new subject");
    await picture(page, "edit");
    await page.press("Approve");
    await page.sees("the mail is sent", has("#messages", "Sent: "));
    const { arguments: sent } = JSON.parse((await page.text("#messages .tool")).slice(2));
    assert.deepEqual(sent, { to: "new@example.test", subject: "new subject", body: "original body" });
    assert.equal(await executions(page), 1);
    page.checkNoErrors();
});

one("reasoning, progress and an image are shown, and stay after a reload", async () => {
    const page = await connected("reasoning");
    await say(page, "How were the quarters?");
    await page.sees("there is progress", "document.querySelector('#messages .activity progress') !== null");
    await page.sees("the agent has replied", has("#messages", "was the best one."));
    assert.match(await page.text("#messages .reasoning"), /^The user asks /);
    await page.sees("the image is loaded", "document.querySelector('#messages img')?.naturalWidth === 120");
    await picture(page, "reasoning");
    await page.reload();
    await page.sees("the image is back", "document.querySelector('#messages img')?.naturalWidth === 120");
    const expected = ["user", "reasoning", "reasoning", "assistant", "tool", "reasoning", "assistant"];
    assert.deepEqual(await roles(page), expected);
    page.checkNoErrors();
});

one("a page that is reloaded before the answer keeps the messages and the interrupt", async () => {
    const page = await connected("approve");
    await say(page, "please write to them");
    await page.sees("there is an interrupt", "document.querySelectorAll('.interrupt').length === 1");
    const before = await page.text("#messages");
    await page.reload();
    await page.sees("the interrupt is back", "document.querySelectorAll('.interrupt').length === 1");
    assert.equal(await page.text("#messages"), before);
    await page.press("Approve");
    await page.sees("the mail is sent", has("#messages", "Sent: "));
    assert.equal(await executions(page), 1);
    assert.deepEqual(await roles(page), ["user", "assistant", "tool", "assistant"]);
    await page.reload();
    await page.sees("the messages are back", has("#messages", "Sent: "));
    assert.deepEqual(await roles(page), ["user", "assistant", "tool", "assistant"]);
    page.checkNoErrors();
});

one("a form is created from its schema", async () => {
    const page = await connected("form");
    await say(page, "file it");
    await page.fill(".interrupt [name=quarter]", "Q3");
    await page.fill(".interrupt [name=year]", "2026");
    await page.fill(".interrupt [name=revenue]", "4200000.5");
    await picture(page, "form");
    await page.press("Submit");
    await page.sees("it is filed", has("#messages", "Filed: "));
    const { filing } = JSON.parse((await page.text("#messages .tool")).slice(2));
    assert.deepEqual(filing, { quarter: "Q3", year: 2026, revenue: 4200000.5 });
    page.checkNoErrors();
});

one("three parallel interrupts have their own buttons, and all answers are sent together", async () => {
    const page = await connected("parallel");
    await say(page, "write to all of them");
    await page.press("Approve");
    await page.press("Approve");
    await page.press("Cancel");
    await page.sees("the agent continues", has("#messages", "That was all of them."));
    assert.equal(await executions(page), 2);
    page.checkNoErrors();
});

async function connected(agent) {
    const page = await browser.open(site.url);
    await page.fill("[name=server]", server.url);
    await page.fill("[name=key]", KEY);
    await page.press("Connect");
    await page.sees("the agents are listed", `[...document.querySelectorAll("[name=agent] option")].some((one) => one.value === "${agent}")`);
    await page.sees("there is a thread", `document.querySelector("#thread").textContent !== ""`);
    const first = await page.text("#thread");
    await page.fill("[name=agent]", agent);
    await page.sees("there is a new thread", `document.querySelector("#thread").textContent !== "${first}"`);
    return page;
}

async function say(page, text) {
    await page.fill("#say input", text);
    await page.press("Send");
}

function has(selector, text) {
    return `document.querySelector("${selector}").textContent.includes(${JSON.stringify(text)})
        && document.querySelector("#notice").textContent === ""`;
}

async function executions(page) {
    return JSON.parse(await page.text("#state")).executions ?? 0;
}

function roles(page) {
    return page.evaluate(`[...document.querySelectorAll("#messages li")].map((one) => one.className)`);
}

/** Saves a picture of the page if PICTURES names a folder. */
async function picture(page, name) {
    if (process.env.PICTURES) await page.screenshot(`${process.env.PICTURES}/${name}.png`);
}
