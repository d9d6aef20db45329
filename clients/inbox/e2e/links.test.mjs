//! The page of a signed link, for people without an account.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach, until } from "../harness/server.mjs";
import { gate, questions } from "../harness/workflows.mjs";

async function link(server, pause, wanted = {}) {
    const { url } = await server.does("POST", `/v1/runs/${pause.runId}/interrupts/${pause.nodeId}/tokens`, wanted);
    return server.url + new URL(url).pathname;
}

const visitor = (arrives, server, more) => arrives(server, { key: null, ...more });

onEach("signed links", (server) => {
    story("opening a link decides nothing; a confirmed answer decides, and only the first", async (arrives) => {
        const pause = await server.asks(gate("linked", {}, "Please **read** me.", "text/markdown"));
        const url = await link(server, pause, { for: "carol" });
        const carol = await visitor(arrives, server);
        const other = await visitor(arrives, server);
        await carol.go(url);
        await carol.sees("This link answers in the name of carol.");
        await carol.sees("Opening this page has decided nothing.");
        await carol.sees(/This link works for another \d/);
        await carol.page.reload();
        await other.go(url);
        await other.button("Accept").waitFor();
        await carol.checkAccess("link");
        await carol.picture("link-light");
        await carol.press("Accept");
        await carol.button("Yes: Accept").waitFor();
        assert.equal((await server.decision(pause)).status, "open", "asked once more before anything is sent");
        await carol.press("Back");
        await carol.press("Accept");
        await carol.press("Yes: Accept");
        await carol.sees("Thank you. You can close this page.");
        assert.equal(await carol.page.getByText("This link works for").count(), 0, "it has done its work");
        await carol.picture("link-decided-light");
        const { decision } = await server.decision(pause);
        assert.deepEqual([decision.value.action, decision.by], ["accept", "carol"]);
        await server.becomes(pause, "completed");

        other.expects(/409/);
        await other.press("Reject");
        await other.sees("It cannot be taken back.");
        await other.press("Reject");
        if (await other.button("Yes: Reject").count()) await other.press("Yes: Reject");
        await other.sees("Somebody was faster");
        await other.sees("This is decided already");
        const late = await visitor(arrives, server);
        late.expects(/409/);
        await late.go(url);
        await late.sees("This is decided already");
        await late.sees("Is linked good?");
        await late.sees("carol accepted this");
        assert.equal(await late.button(/Accept|Reject/).count(), 0);
    });

    story("questions are answered over a link", async (arrives) => {
        const pause = await server.asks(questions("linked-questions", [{ id: "why", question: "Why?" }]));
        const carol = await visitor(arrives, server);
        await carol.go(await link(server, pause));
        await carol.field("Why?").fill("Because.");
        await carol.press("Send the answers");
        await carol.press("Yes: Send the answers");
        await carol.sees("Thank you.");
        assert.deepEqual((await server.decision(pause)).decision.value.answers, { why: "Because." });
    });

    story("a link for looking has nothing to press", async (arrives) => {
        const pause = await server.asks(gate("looked-at"));
        const carol = await visitor(arrives, server);
        await carol.go(await link(server, pause, { intent: "inspect" }));
        await carol.sees("This link is for looking only.");
        assert.equal(await carol.button(/Accept|Reject/).count(), 0);
        await server.answer(pause, { action: "accept" });
    });

    story("links that are past their time, cancelled or garbage say so", async (arrives) => {
        const carol = await visitor(arrives, server);
        carol.expects(/404|409|410|422/);
        const slow = await server.asks(gate("slow"));
        const short = await link(server, slow, { expiresInSeconds: 1 });
        await until("the link is over", async () => (await fetch(short)).status === 410);
        await carol.go(short);
        await carol.sees("This link is past its time");
        await carol.checkAccess("a link that is over");
        const url = await link(server, slow);
        await server.does("POST", `/v1/runs/${slow.runId}/cancel`, {});
        await server.becomes(slow, "cancelled");
        await carol.go(url);
        await carol.sees("This was cancelled");
        await carol.go(`${url.slice(0, -3)}AAA`);
        await carol.sees("This link is not known");
        await carol.go("/v1/interrupts/garbage");
        await carol.sees("This link is not known");
    });
});
