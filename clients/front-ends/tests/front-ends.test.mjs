//! CopilotKit and assistant-ui in a browser, as docs/ag-ui-front-ends.md shows them.

import { InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { Browser } from "../../ag-ui/harness/browser.mjs";
import { serving } from "../../ag-ui/harness/server.mjs";
import { serve } from "../harness/site.mjs";
import { createRuntime } from "../runtime.mjs";

const copilotkit = { page: "copilotkit", input: "[data-testid=copilot-chat-textarea]", send: "[data-testid=copilot-send-button]" };
const ways = [
    { name: "CopilotKit", ...copilotkit },
    { name: "CopilotKit with its runtime", ...copilotkit, runtime: "runtime" },
    { name: "CopilotKit with its runtime and the default runner", ...copilotkit, runtime: "default" },
    { name: "assistant-ui", page: "assistant-ui", input: "#composer", send: "#send" },
];

let browser;
let key;
const site = await serve(new Set(ways.map(({ page }) => page)), {
    runtime: runtimeAt("/runtime"),
    default: runtimeAt("/default", new InMemoryAgentRunner()),
});
const server = serving({ options: ["--cors-origin", site.url] });
before(async () => (browser = await Browser.start()));
after(async () => {
    site.close();
    await browser.close();
});

for (const way of ways) {
    let page;
    const one = (name, check) => test(`${name} (${way.name})`, { timeout: 60_000 }, () => check().finally(() => page?.close()));
    const open = async (agent) => (page = await opened(way, agent));

    one("a call is approved", async () => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.press("Approve");
        await sees(page, "Sent: ");
        await executed(page, 1);
    });

    one("a call is denied, and not made", async () => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.press("Deny");
        await sees(page, "Then I do not send it.");
        assert.equal(await executions(page), 0);
    });

    one("arguments are edited in a form made of the tool's schema", async () => {
        const page = await open("edit");
        await say(page, "please write to them");
        await page.fill(".interrupt input[name=to]", "new@example.test");
        await page.press("Approve");
        await sees(page, "new@example.test");
        await executed(page, 1);
    });

    one("a form is made of its schema", async () => {
        const page = await open("form");
        await say(page, "file it");
        await page.fill(".interrupt [name=quarter]", "Q3");
        await page.fill(".interrupt [name=year]", "2026");
        await page.fill(".interrupt [name=revenue]", "4200000.5");
        await page.press("Submit");
        await sees(page, "4200000.5");
    });

    one("three interrupts at once are answered one by one and sent together", async () => {
        const page = await open("parallel");
        await say(page, "write to all of them");
        await page.sees("three cards", "document.querySelectorAll('.interrupt').length === 3");
        for (const [card, button] of [[0, 0], [1, 0], [2, 1]]) {
            await page.evaluate(`document.querySelectorAll(".interrupt")[${card}].querySelectorAll("button")[${button}].click()`);
        }
        await sees(page, "That was all of them.");
        await executed(page, 2);
    });

    one("two interrupts come one after the other", async () => {
        const page = await open("chain");
        await say(page, "write twice");
        await page.press("Approve");
        await sees(page, "And now the second one.");
        await page.press("Approve");
        await executed(page, 2);
    });

    one("a page that is reloaded has the history and the interrupt", async () => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.sees("a card", "document.querySelectorAll('.interrupt').length === 1");
        await page.reload();
        await page.sees("the card is back", "document.querySelectorAll('.interrupt').length === 1");
        await sees(page, "please write to them");
        await page.press("Approve");
        await sees(page, "Sent: ");
        await executed(page, 1);
    });

    one("words instead of an answer are heard, and stay in the page", async () => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.fill(".instead input", "rather tell me the time");
        await page.press("Say instead");
        await sees(page, "Then I do not send it.");
        await sees(page, "rather tell me the time");
        assert.equal(await executions(page), 0);
        const { messages } = await server.thread("approve", page.thread);
        assert.ok(messages.some(({ content }) => content === "rather tell me the time"), "the thread has them");
    });
}

/** Creates the runtime with the first request: the address of the server is known by then. */
function runtimeAt(basePath, runner) {
    const keyOf = (request) => (request.headers.get("cookie")?.split("; ").includes(site.cookie) ? key : undefined);
    let listener;
    return (request, response) => {
        listener ??= createRuntime({ url: `${server.url}/ag-ui`, agents: ["approve", "edit", "form", "parallel", "chain"], keyOf, basePath, runner });
        return listener(request, response);
    };
}

/** Creates a key with these scopes only. */
async function createKey(scopes) {
    const { status, body } = await server.request("POST", "/v1/keys", { principal: "user", scopes });
    assert.equal(status, 201, JSON.stringify(body));
    return body.key;
}

async function opened({ page: name, runtime, input, send }, agent) {
    const thread = `thread-${randomUUID()}`;
    key ??= await createKey(["runs:create", "runs:read", "approvals:respond"]);
    const connection = runtime ? { runtime: `${site.url}/${runtime}` } : { server: server.url, key };
    const page = await browser.open(`${site.url}/${name}#${new URLSearchParams({ agent, thread, ...connection })}`);
    return Object.assign(page, { thread, chat: { input, send } });
}

async function say(page, text) {
    const [area, button] = [page.chat.input, page.chat.send].map((selector) => `document.querySelector(${JSON.stringify(selector)})`);
    await page.sees("the chat", `${area} !== null`);
    // React replaces the setter of an element's own value, and hears nothing of what is set through it.
    await page.evaluate(`
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(${area}, ${JSON.stringify(text)});
        ${area}.dispatchEvent(new Event("input", { bubbles: true }));
    `);
    await page.sees("it can be sent", `${button} && !${button}.disabled`);
    await page.evaluate(`${button}.click()`);
}

function sees(page, text) {
    return page.sees(`the page says ${text}`, `document.body.innerText.includes(${JSON.stringify(text)})`);
}

/** What the page shows as the state may come behind the words. */
function executed(page, times) {
    return page.sees(`${times} were made`, `JSON.parse(document.querySelector("#state").textContent).executions === ${times}`);
}

function executions(page) {
    return page.evaluate(`JSON.parse(document.querySelector("#state").textContent).executions ?? 0`);
}
