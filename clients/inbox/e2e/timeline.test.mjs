//! The timeline of a run: its state at an event, forks, pause, resume and cancel.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { onEachDatabase, waitUntil } from "../harness/server.mjs";
import { gate, refined } from "../harness/workflows.mjs";

const event = (person, words) => person.page.locator(".event-list li", { hasText: words });
const status = (person, words) => person.page.locator(".run-head .chip", { hasText: new RegExp(`^${words}$`) });
const current = (person) => person.page.locator("svg.graph .node-current .node-name");
const statusOf = async (server, runId) => (await server.call("GET", `/v1/runs/${encodeURIComponent(runId)}`)).status;

onEachDatabase("the timeline", (server) => {
    story("the timeline shows the state after each event, and forks a run that is decided differently", async (openBrowser) => {
        const interrupt = await server.openInterrupt(refined("forked"));
        await server.answer(interrupt, { action: "refine", refineFeedback: { scope: "whole", text: "Better." } });
        await server.answer(await server.waitForInterrupt(interrupt.runId), { action: "accept" });
        await server.waitForStatus(interrupt, "completed");
        const ann = await openBrowser(server);
        await ann.go(`/inbox/runs/${interrupt.runId}`);
        await status(ann, "completed").waitFor();
        assert.equal(await ann.page.locator(".node-current").count(), 0, "a finished run has no current step");

        const detail = ann.page.locator(".event-detail");
        const [changed, done] = [event(ann, "Variable changed"), event(ann, "Step done · Better")].map((one) => one.locator(".event-line"));
        await changed.click();
        await detail.getByText("This is the state after event 12, the last one before it.").waitFor();
        await detail.getByRole("heading", { name: "Changed since then" }).waitFor();
        await done.click();
        await ann.page.getByRole("heading", { name: "Workflow after event 14" }).waitFor();
        await detail.getByText("Changes of the variables by this event").waitFor();
        await detail.locator(".untrusted", { hasText: "Better version." }).first().waitFor();
        assert.equal(await detail.count(), 1, "one event is selected");
        await done.click();
        await detail.waitFor({ state: "detached" });
        await ann.page.getByRole("heading", { name: "Workflow", exact: true }).waitFor();

        await event(ann, "Interrupt resolved").first().locator(".event-line").click();
        await ann.press("Fork from here");
        await ann.waitForText("A new run copies all events before event");
        await ann.press("Yes: Fork from here");
        await ann.waitForText("New run:");
        await ann.page.locator(".notice-good a").click();
        await ann.page.waitForURL((url) => url.pathname.startsWith("/inbox/runs/") && !url.pathname.endsWith(interrupt.runId));
        const runId = decodeURIComponent(new URL(ann.page.url()).pathname.split("/").at(-1));
        await ann.page.locator(".fact-line", { hasText: "Forked from" }).getByRole("link", { name: interrupt.runId }).waitFor();
        await status(ann, "waits for a decision").waitFor();
        assert.deepEqual(await current(ann).allTextContents(), ["Good?"]);
        await ann.page.locator(".asked li", { hasText: "waits for an answer" }).getByRole("link").click();
        await ann.waitForText("First version.");
        await ann.press("Accept");
        await ann.waitForText("You accepted this.");
        await server.waitForStatus({ runId }, "completed");
        const { interrupts } = await server.call("GET", `/v1/runs/${encodeURIComponent(runId)}/interrupts`);
        assert.deepEqual(interrupts.map(({ decision }) => decision.value.action), ["accept"]);
        assert.equal(await statusOf(server, interrupt.runId), "completed", "the source run does not change");
    });

    story("a run links to the interrupts of the runs below it, which are decided there", async (openBrowser) => {
        const { runId } = await server.call("POST", "/v1/runs", { workflowId: "demo-release" });
        const ann = await openBrowser(server);
        await ann.go(`/inbox/runs/${runId}`);
        const below = ann.page.locator("section", { has: ann.page.getByRole("heading", { name: "Open interrupts of child runs" }) });
        await below.getByText("called by announce").waitFor();
        await below.getByRole("link", { name: "sample-approval: review" }).click();
        await ann.press("Accept");
        await ann.waitForText("You accepted this.");
        await server.waitForStatus({ runId }, "completed");
        await ann.go(`/inbox/runs/${runId}`);
        await status(ann, "completed").waitFor();
        assert.equal(await below.count(), 0);
    });

    story("a run is paused, resumed and cancelled, each after a confirmation", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("controlled"));
        const ann = await openBrowser(server);
        await ann.go(`/inbox/runs/${interrupt.runId}`);
        await status(ann, "waits for a decision").waitFor();
        assert.deepEqual(await current(ann).allTextContents(), ["Ask"], "the drawing shows the current step");
        await ann.page.locator("svg.graph .node-halo").waitFor();

        await ann.press("Pause the run");
        await ann.press("Cancel");
        assert.equal(await statusOf(server, interrupt.runId), "waiting-approval", "the run is not paused before the confirmation");
        await ann.press("Pause the run");
        await ann.field("Reason").fill("Until the audit is over.");
        await ann.press("Pause the run");
        await status(ann, "paused").waitFor();
        await ann.page.locator(".fact-line", { hasText: "Until the audit is over." }).waitFor();
        assert.equal(await statusOf(server, interrupt.runId), "paused");

        await ann.press("Resume the run");
        await ann.press("Yes: Resume the run");
        await status(ann, "waits for a decision").waitFor();
        await event(ann, "The run was resumed").waitFor();

        await ann.press("Cancel the run");
        await ann.field("Reason").fill("Not needed.");
        await ann.press("Cancel the run");
        await status(ann, "cancelled").waitFor();
        await event(ann, "The run was cancelled").waitFor();
        await ann.button("Pause the run").waitFor({ state: "detached" });
        assert.equal((await waitUntil("the interrupt is closed", async () => (await server.readInterrupt(interrupt)).status !== "open" && server.readInterrupt(interrupt))).status, "cancelled");
    });

    story("a user that may only read a run has no controls", async (openBrowser) => {
        const interrupt = await server.openInterrupt(gate("watched"));
        const reader = await openBrowser(server, { key: await server.createKey("reader", { scopes: ["runs:read"] }) });
        await reader.go(`/inbox/runs/${interrupt.runId}`);
        await event(reader, "Approval requested").locator(".event-line").click();
        await reader.page.locator(".event-detail").getByText("State of the run after this event").waitFor();
        await reader.waitForText("your key may not read workflows");
        for (const name of ["Pause the run", "Cancel the run", "Fork from here"]) assert.equal(await reader.button(name).count(), 0, name);
        await server.answer(interrupt, { action: "accept" });
        await status(reader, "completed").waitFor();
    });
});
