//! Injection payloads in every untrusted field, in a real browser.

import { story } from "../harness/browser.mjs";
import { checkInert, openAll } from "../harness/inert.mjs";
import { onEachDatabase } from "../harness/server.mjs";
import { gate, interruptNode, questions } from "../harness/workflows.mjs";
import { PAYLOADS } from "../unit/payloads.mjs";

// Unpaired surrogates cannot be sent as JSON.
const evil = PAYLOADS.filter((one) => Buffer.from(one).toString() === one).map((one) => one.replaceAll("alert(1)", "window.hit=1"));
const some = `<img src=x onerror="window.hit=1"><script>window.hit=1</script><svg onload="window.hit=1"><a href="javascript:window.hit=1">press</a><style>*{display:none}</style>`;

onEachDatabase("untrusted texts", (server) => {
    story("untrusted texts are inert in approvals of every type, in decisions and in the timeline", async (openBrowser) => {
        const ann = await openBrowser(server);
        await ann.go("/inbox");
        const artifacts = [
            ["as-markdown", evil.join("\n\n"), "text/markdown"],
            ["as-text", evil.join("\n"), "text"],
            ["as-json", { [some]: evil, nested: { [some]: some } }, "json"],
            ["as-table", evil.slice(0, 40).map((one) => ({ [some]: one, other: some })), "table"],
        ];
        for (const [id, artifact, type] of artifacts) {
            const config = { title: `${id} ${some}`, description: `**${some}** ${evil.join(" ")}`, actions: ["accept", "reject", "edit-accept", "refine"] };
            const flow = { ...gate(id, config, artifact, type), name: some, description: some };
            flow.nodes[0].name = some;
            const interrupt = await server.openInterrupt(flow);
            await ann.navigate(interrupt.path);
            await ann.button("Accept").waitFor();
            await openAll(ann);
            await checkInert(ann, id);
            await ann.press("Edit and accept");
            await ann.button("Review the change").waitFor();
            await checkInert(ann, `${id}, edited`);
            await server.answer(interrupt, { action: "reject", feedback: evil.join("\n") });
            await ann.navigate(interrupt.path);
            await ann.waitForText(/rejected this/);
            await openAll(ann);
            await checkInert(ann, `${id}, decided`);
            await ann.navigate(`/inbox/runs/${interrupt.runId}`);
            await ann.page.locator(".event-list li").first().waitFor();
            await openAll(ann);
            await checkInert(ann, `${id}, timeline`);
        }
    });

    story("untrusted texts are inert in lists, forms, names and tags", async (openBrowser) => {
        const boss = await openBrowser(server);
        await boss.go("/inbox");
        const resumeSchema = {
            type: "object", title: some, description: some, required: ["a"],
            properties: {
                a: { type: "string", title: some, description: some, default: some },
                [some]: { enum: evil.slice(0, 5), title: "b" },
                c: { oneOf: [{ const: 1, title: some }], description: some },
            },
        };
        const interrupts = [
            await server.openInterrupt(gate("titled", { title: some })),
            await server.openInterrupt(interruptNode("evil-form", { kind: "custom", data: { customKind: some, message: some, description: some, more: evil }, resumeSchema })),
            await server.openInterrupt(questions("evil-questions", [{ id: "q", question: some }])),
            await server.openInterrupt(interruptNode("evil-event", { kind: "external-event", data: { eventType: some, correlation: { [some]: some } } })),
        ];
        await server.createHold({ title: some, description: evil.join("\n\n"), tags: ["<img-src=x>"], data: { [some]: evil } });
        for (const interrupt of interrupts) {
            await boss.navigate(interrupt.path);
            await boss.page.locator(".decide").waitFor();
            await openAll(boss);
            await checkInert(boss, interrupt.kind);
        }
        await boss.navigate("/inbox?whose=all");
        await boss.page.locator(".item-title").nth(4).waitFor();
        await checkInert(boss, "list");
        const { url } = await server.call("POST", `/v1/runs/${interrupts[0].runId}/interrupts/ask/tokens`, {});
        await boss.go(new URL(url).pathname);
        await boss.button("Accept").waitFor();
        await checkInert(boss, "link");
    });
});
