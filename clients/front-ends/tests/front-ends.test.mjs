//! CopilotKit and assistant-ui in a browser, as docs/ag-ui-front-ends.md shows them.

import { InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { Browser } from "../../ag-ui/harness/browser.mjs";
import { serving } from "../../ag-ui/harness/server.mjs";
import { serve } from "../harness/site.mjs";
import { createRuntime } from "../runtime.mjs";

const copilotkit = {
    page: "copilotkit",
    input: "[data-testid=copilot-chat-textarea]",
    // The same button stops a run.
    send: "[data-copilot-running=false] [data-testid=copilot-send-button]",
};
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
    const one = (name, check) => withPage(way, name, check);

    one("a call is approved", async (open) => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.press("Approve");
        await sees(page, "Sent: ");
        await executed(page, 1);
    });

    one("an agent that reasons, reports progress and gets an image replies", async (open) => {
        const page = await open("reasoning");
        await say(page, "How were the quarters?");
        await sees(page, "was the best one.");
    });

    one("a denied call is not executed", async (open) => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.press("Deny");
        await sees(page, "Then I do not send it.");
        assert.equal(await executions(page), 0);
    });

    one("arguments are edited in a form from the schema of the tool", async (open) => {
        const page = await open("edit");
        await say(page, "please write to them");
        await page.fill(".interrupt input[name=to]", "new@example.test");
        await page.press("Approve");
        await sees(page, "new@example.test");
        await executed(page, 1);
    });

    one("an invalid form is not sent", async (open) => {
        const page = await open("edit");
        await say(page, "please write to them");
        await page.fill(".interrupt input[name=to]", "");
        await page.press("Approve");
        await page.sees("the empty field", "document.querySelector('.interrupt input[name=to]:invalid') !== null");
        await page.fill(".interrupt input[name=to]", "new@example.test");
        await page.press("Approve");
        await sees(page, "new@example.test");
        await executed(page, 1);
    });

    one("a form is created from its schema", async (open) => {
        const page = await open("form");
        await say(page, "file it");
        await fillIn(page);
        await page.press("Submit");
        await sees(page, "4200000.5");
    });

    one("three parallel interrupts are answered one by one and sent together", async (open) => {
        const page = await open("parallel");
        await say(page, "write to all of them");
        await page.sees("three cards", "document.querySelectorAll('.interrupt').length === 3");
        for (const to of ["x@y.test", "y@z.test", "z@w.test"]) await sees(page, to);
        for (const [card, button] of [[0, 0], [1, 0], [2, 1]]) {
            await page.evaluate(`document.querySelectorAll(".interrupt")[${card}].querySelectorAll("button")[${button}].click()`);
        }
        await sees(page, "That was all of them.");
        await executed(page, 2);
    });

    one("two interrupts open one after the other", async (open) => {
        const page = await open("chain");
        await say(page, "write twice");
        await page.press("Approve");
        await sees(page, "And now the second one.");
        await page.press("Approve");
        await executed(page, 2);
    });

    one("interrupts of an agent and a workflow that the agent calls are answered together", async (open) => {
        const page = await open("nested");
        await say(page, "release it");
        await page.sees("two cards", "document.querySelectorAll('.interrupt').length === 2");
        await sees(page, "old@example.test");
        await page.reload();
        await page.sees("two cards after a reload", "document.querySelectorAll('.interrupt').length === 2");
        for (const card of [0, 1]) {
            await page.evaluate(`document.querySelectorAll(".interrupt")[${card}].querySelector("button").click()`);
        }
        await sees(page, "Both have ended.");
    });

    one("a reloaded page has the history and the interrupt", async (open) => {
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

    one("a message instead of an answer reaches the agent and stays in the page", async (open) => {
        const page = await open("approve");
        await say(page, "please write to them");
        await page.fill(".instead input", "rather tell me the time");
        await page.press("Say instead");
        await sees(page, "Then I do not send it.");
        await sees(page, "rather tell me the time");
        assert.equal(await executions(page), 0);
        const { messages } = await server.thread("approve", page.thread);
        assert.ok(messages.some(({ content }) => content === "rather tell me the time"), "the thread has the message");
    });
}

// The default runner shows only messages that passed through it.
for (const way of ways.filter(({ runtime }) => runtime !== "default")) {
    withPage(way, "a rejected answer leaves the interrupt open", async (open) => {
        const page = await open("form");
        await say(page, "file it");
        await page.fill(".interrupt [name=quarter]", "Q3");
        await page.evaluate("document.querySelector('.interrupt').noValidate = true");
        await page.press("Submit");
        await page.sees("the refusal", "document.querySelector('#error').textContent.includes('invalid payload')");
        await page.sees("the card is gone", "document.querySelector('.interrupt') === null");
        await page.reload();
        await fillIn(page);
        await page.press("Submit");
        await sees(page, "4200000.5");
    });

    withPage(way, "a thread of another client has its history and its interrupt", async (open) => {
        const thread = `thread-${randomUUID()}`;
        const messages = [{ id: randomUUID(), role: "user", content: "write to them from elsewhere" }];
        const { status } = await server.request("POST", "/ag-ui/approve", { threadId: thread, runId: randomUUID(), messages });
        assert.equal(status, 200);
        const page = await open("approve", thread);
        await sees(page, "write to them from elsewhere");
        await page.press("Approve");
        await sees(page, "Sent: ");
        await executed(page, 1);
    });
}

test("the runtime rejects requests without a session and ignores keys of the browser", async () => {
    key ??= await createKey();
    const input = { threadId: `thread-${randomUUID()}`, runId: randomUUID(), state: {}, tools: [], context: [], forwardedProps: {} };
    const messages = [{ id: randomUUID(), role: "user", content: "please write to them" }];
    const ask = (path, headers, body) => fetch(`${site.url}/runtime/${path}`, {
        method: body ? "POST" : "GET", headers: { "Content-Type": "application/json", ...headers }, body: body && JSON.stringify(body),
    });
    for (const headers of [{}, { Cookie: "session=other" }, { Authorization: `Bearer ${key}` }]) {
        for (const action of ["run", "connect"]) {
            assert.equal((await ask(`agent/approve/${action}`, headers, { ...input, messages })).status, 401);
        }
    }
    const response = await ask("agent/approve/run", { Cookie: site.cookie, Authorization: "Bearer none" }, { ...input, messages });
    assert.match(await response.text(), /RUN_FINISHED.*interrupt/);
    assert.equal((await ask("threads", { Cookie: site.cookie })).status, 422, "the threads of other users are not listed");
});

/** Defines a test with a page, which `check` opens. */
function withPage(way, name, check) {
    test(`${name} (${way.name})`, { timeout: 60_000 }, async () => {
        let page;
        try {
            await check(async (agent, thread = `thread-${randomUUID()}`) => (page = await opened(way, agent, thread)));
        } finally {
            await page?.close();
        }
    });
}

/** Creates the runtime with the first request: the address of the server is known by then. */
function runtimeAt(basePath, runner) {
    const keyOf = (request) => (request.headers.get("cookie")?.split("; ").includes(site.cookie) ? key : undefined);
    let listener;
    return (request, response) => {
        listener ??= createRuntime({ url: `${server.url}/ag-ui`, agents: ["approve", "edit", "form", "parallel", "chain", "nested", "reasoning"], keyOf, basePath, runner });
        return listener(request, response);
    };
}

/** Creates a key with only the scopes that the pages need. */
async function createKey() {
    const scopes = ["runs:create", "runs:read", "approvals:respond"];
    const { status, body } = await server.request("POST", "/v1/keys", { principal: "user", scopes });
    assert.equal(status, 201, JSON.stringify(body));
    return body.key;
}

async function opened({ page: name, runtime, input, send }, agent, thread) {
    key ??= await createKey();
    const connection = runtime ? { runtime: `${site.url}/${runtime}` } : { server: server.url, key };
    const page = await browser.open(`${site.url}/${name}#${new URLSearchParams({ agent, thread, ...connection })}`);
    return Object.assign(page, { thread, chat: { input, send } });
}

async function say(page, text) {
    const [area, button] = [page.chat.input, page.chat.send].map((selector) => `document.querySelector(${JSON.stringify(selector)})`);
    await page.sees("the chat", `${area} !== null`);
    await page.sees("the chat has joined its thread", `performance.getEntriesByType("resource").some(({ name, responseStatus }) =>
        /\\/connect$|\\/threads\\//.test(name) && [200, 404].includes(responseStatus))`);
    // React replaces the value setter of the element and does not notice values that are set through it.
    await page.evaluate(`
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(${area}, ${JSON.stringify(text)});
        ${area}.dispatchEvent(new Event("input", { bubbles: true }));
    `);
    await page.sees("it can be sent", `${button} && !${button}.disabled && (${button}.click(), true)`);
}

async function fillIn(page) {
    for (const [name, value] of Object.entries({ quarter: "Q3", year: "2026", revenue: "4200000.5" })) {
        await page.fill(`.interrupt [name=${name}]`, value);
    }
}

function sees(page, text) {
    return page.sees(`the page shows ${text}`, `document.body.innerText.includes(${JSON.stringify(text)})`);
}

/** Waits for the state: the page may show it after the messages. */
function executed(page, times) {
    return page.sees(`${times} executions`, `JSON.parse(document.querySelector("#state").textContent).executions === ${times}`);
}

function executions(page) {
    return page.evaluate(`JSON.parse(document.querySelector("#state").textContent).executions ?? 0`);
}
