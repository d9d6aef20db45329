//! The timeline of a run, for operators: its state at an event, forks, and pausing, resuming and cancelling it.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEach, until } from "../harness/server.mjs";
import { gate, refined } from "../harness/workflows.mjs";

const event = (person, words) => person.page.locator(".event-list li", { hasText: words });
const status = (person, words) => person.page.locator(".run-head .chip", { hasText: new RegExp(`^${words}$`) });
const current = (person) => person.page.locator("svg.graph .node-current .node-name");
const statusOf = async (server, runId) => (await server.does("GET", `/v1/runs/${encodeURIComponent(runId)}`)).status;

onEach("the timeline", (server) => {
    story("shows the state after each event, and forks a run that waits again and is decided otherwise", async (arrives) => {
        const pause = await server.asks(refined("forked"));
        await server.answer(pause, { action: "refine", refineFeedback: { scope: "whole", text: "Better." } });
        await server.answer(await server.opened(pause.runId), { action: "accept" });
        await server.becomes(pause, "completed");
        const ann = await arrives(server);
        await ann.go(`/inbox/runs/${pause.runId}`);
        await status(ann, "completed").waitFor();
        assert.equal(await ann.page.locator(".node-current").count(), 0, "a run that has ended is at no step");

        const detail = ann.page.locator(".event-detail");
        const [changed, done] = [event(ann, "Variable changed"), event(ann, "Step done · Better")].map((one) => one.locator(".event-line"));
        await changed.click();
        await detail.getByText("This is the state after event 12, the last before it;").waitFor();
        await detail.getByRole("heading", { name: "Changed since then" }).waitFor();
        await done.click();
        await ann.page.getByRole("heading", { name: "The workflow after event 14" }).waitFor();
        await detail.getByText("What this event changed in the variables").waitFor();
        await detail.locator(".untrusted", { hasText: "Better version." }).first().waitFor();
        assert.equal(await detail.count(), 1, "one event is looked at");
        await done.click();
        await detail.waitFor({ state: "detached" });
        await ann.page.getByRole("heading", { name: "The workflow", exact: true }).waitFor();

        await event(ann, "Answered").first().locator(".event-line").click();
        await ann.press("Fork from here");
        await ann.sees("A new run copies everything before event");
        await ann.press("Yes: Fork from here");
        await ann.sees("A new run was made:");
        await ann.page.locator(".notice-good a").click();
        await ann.page.waitForURL((url) => url.pathname.startsWith("/inbox/runs/") && !url.pathname.endsWith(pause.runId));
        const runId = decodeURIComponent(new URL(ann.page.url()).pathname.split("/").at(-1));
        await ann.page.locator(".fact-line", { hasText: "Forked from" }).getByRole("link", { name: pause.runId }).waitFor();
        await status(ann, "waits for a decision").waitFor();
        assert.deepEqual(await current(ann).allTextContents(), ["Good?"]);
        await ann.page.locator(".asked li", { hasText: "waits for an answer" }).getByRole("link").click();
        await ann.sees("First version.");
        await ann.press("Accept");
        await ann.sees("You accepted this.");
        await server.becomes({ runId }, "completed");
        const { interrupts } = await server.does("GET", `/v1/runs/${encodeURIComponent(runId)}/interrupts`);
        assert.deepEqual(interrupts.map(({ decision }) => decision.value.action), ["accept"]);
        assert.equal(await statusOf(server, pause.runId), "completed", "the source stays as it is");
    });

    story("pauses, resumes and cancels a run, each after it was confirmed", async (arrives) => {
        const pause = await server.asks(gate("controlled"));
        const ann = await arrives(server);
        await ann.go(`/inbox/runs/${pause.runId}`);
        await status(ann, "waits for a decision").waitFor();
        assert.deepEqual(await current(ann).allTextContents(), ["Ask"], "the drawing shows where the run is");
        await ann.page.locator("svg.graph .node-halo").waitFor();

        await ann.press("Pause the run");
        await ann.press("Cancel");
        assert.equal(await statusOf(server, pause.runId), "waiting-approval", "nothing happens before it is confirmed");
        await ann.press("Pause the run");
        await ann.field("Why?").fill("Until the audit is over.");
        await ann.press("Pause the run");
        await status(ann, "paused").waitFor();
        await ann.page.locator(".fact-line", { hasText: "Until the audit is over." }).waitFor();
        assert.equal(await statusOf(server, pause.runId), "paused");

        await ann.press("Resume the run");
        await ann.press("Yes: Resume the run");
        await status(ann, "waits for a decision").waitFor();
        await event(ann, "The run was resumed").waitFor();

        await ann.press("Cancel the run");
        await ann.field("Why?").fill("Not needed.");
        await ann.press("Cancel the run");
        await status(ann, "cancelled").waitFor();
        await event(ann, "The run was cancelled").waitFor();
        await ann.button("Pause the run").waitFor({ state: "detached" });
        assert.equal((await until("the question is over", async () => (await server.decision(pause)).status !== "open" && server.decision(pause))).status, "cancelled");
    });

    story("of a run that somebody may only read offers nothing but reading", async (arrives) => {
        const pause = await server.asks(gate("watched"));
        const reader = await arrives(server, { key: await server.person("reader", { scopes: ["runs:read"] }) });
        await reader.go(`/inbox/runs/${pause.runId}`);
        await event(reader, "Approval asked for").locator(".event-line").click();
        await reader.page.locator(".event-detail").getByText("State of the run after this event").waitFor();
        await reader.sees("your key may not read workflows");
        for (const name of ["Pause the run", "Cancel the run", "Fork from here"]) assert.equal(await reader.button(name).count(), 0, name);
        await server.answer(pause, { action: "accept" });
        await status(reader, "completed").waitFor();
    });
});
