//! Texts that want to be more than text, in every field that somebody else can fill, in a real browser.

import { story } from "../harness/browser.mjs";
import { checkInert, openAll } from "../harness/inert.mjs";
import { onEach } from "../harness/server.mjs";
import { gate, interrupt, questions } from "../harness/workflows.mjs";
import { PAYLOADS } from "../unit/payloads.mjs";

// Half a character cannot be sent as JSON at all.
const evil = PAYLOADS.filter((one) => Buffer.from(one).toString() === one).map((one) => one.replaceAll("alert(1)", "window.hit=1"));
const some = `<img src=x onerror="window.hit=1"><script>window.hit=1</script><svg onload="window.hit=1"><a href="javascript:window.hit=1">press</a><style>*{display:none}</style>`;

onEach("untrusted texts", (server) => {
    story("are inert in the list, in approvals of every look, in decisions and in the timeline", async (arrives) => {
        const ann = await arrives(server);
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
            const pause = await server.asks(flow);
            await ann.moves(pause.path);
            await ann.button("Accept").waitFor();
            await openAll(ann);
            await checkInert(ann, id);
            await ann.press("Edit and accept");
            await ann.button("Review the change").waitFor();
            await checkInert(ann, `${id}, edited`);
            await server.answer(pause, { action: "reject", feedback: evil.join("\n") });
            await ann.moves(pause.path);
            await ann.sees(/rejected this/);
            await openAll(ann);
            await checkInert(ann, `${id}, decided`);
            await ann.moves(`/inbox/runs/${pause.runId}`);
            await ann.page.locator(".event-list li").first().waitFor();
            await openAll(ann);
            await checkInert(ann, `${id}, timeline`);
        }
    });

    story("are inert in lists, forms, names and tags", async (arrives) => {
        const boss = await arrives(server);
        await boss.go("/inbox");
        const resumeSchema = {
            type: "object", title: some, description: some, required: ["a"],
            properties: {
                a: { type: "string", title: some, description: some, default: some },
                [some]: { enum: evil.slice(0, 5), title: "b" },
                c: { oneOf: [{ const: 1, title: some }], description: some },
            },
        };
        const pauses = [
            await server.asks(gate("titled", { title: some })),
            await server.asks(interrupt("evil-form", { kind: "custom", data: { customKind: some, message: some, description: some, more: evil }, resumeSchema })),
            await server.asks(questions("evil-questions", [{ id: "q", question: some }])),
            await server.asks(interrupt("evil-event", { kind: "external-event", data: { eventType: some, correlation: { [some]: some } } })),
        ];
        await server.hold({ title: some, description: evil.join("\n\n"), tags: ["<img-src=x>"], data: { [some]: evil } });
        for (const pause of pauses) {
            await boss.moves(pause.path);
            await boss.page.locator(".decide").waitFor();
            await openAll(boss);
            await checkInert(boss, pause.kind);
        }
        await boss.moves("/inbox?whose=all");
        await boss.page.locator(".item-title").nth(4).waitFor();
        await checkInert(boss, "list");
        const { url } = await server.does("POST", `/v1/runs/${pauses[0].runId}/interrupts/ask/tokens`, {});
        await boss.go(new URL(url).pathname);
        await boss.button("Accept").waitFor();
        await checkInert(boss, "link");
    });
});
