//! Deadlines. The server uses its own clock, so this test waits for the five seconds of the demo agent; all threads
//! wait at the same time.

import assert from "node:assert/strict";
import { Front, clients, modern, old, one, post, resume } from "../harness/clients.mjs";
import { serving, until } from "../harness/server.mjs";

const server = serving();
const yes = { approved: true };

one("an expired interrupt cannot be answered, but can be cancelled", async () => {
    const began = Date.now();
    const fronts = clients.flatMap((client) => [new Front(server, client, "expiring"), new Front(server, client, "expiring")]);
    for (const front of fronts) assert.equal((await front.say("soon, please")).outcome, "interrupt");
    const latest = fronts.at(-1).pending[0].expiresAt;
    const left = Date.parse(latest) - began;
    assert.ok(left > 4_000 && left < 30_000, `${latest} is in about five seconds`);
    await until("the deadline has passed", () => Date.now() > Date.parse(latest));

    for (const client of clients) {
        const [front, other] = fronts.filter((one) => one.client === client);
        const [{ threadId, pending }, other_pending] = [front, other.pending];
        const late = await post(server, "expiring", { threadId, resume: resume(pending, [yes]) }, { client });
        assert.equal(late.error?.code, "INTERRUPT_EXPIRED");
        const cancelled = await post(server, "expiring", { threadId, resume: resume(pending, ["cancel"]) }, { client });
        assert.equal(cancelled.outcome, "success");
        assert.equal(cancelled.state.executions ?? 0, 0);
        assert.deepEqual((await server.thread("expiring", threadId)).interrupts, []);
        // The thread can be continued by any client.
        const next = await post(server, "expiring", { threadId, messages: [{ id: "once-more", role: "user", content: "again" }] }, { client });
        assert.equal(next.outcome, "interrupt");
        assert.equal(other_pending.length, 1);
    }

    const [, own] = fronts.filter(({ client }) => client === modern);
    await assert.rejects(own.answer(yes), /expired/i, "the newer client does not send the answer");
    assert.equal((await own.answer("cancel")).outcome, "success");
    assert.equal(own.texts.at(-1), "It was rejected, or not allowed in time.");
    const [, stuck] = fronts.filter(({ client }) => client === old);
    await assert.rejects(stuck.answer("cancel"), /expired/i, "the older client cannot cancel");
    const fresh = new Front(server, old, "expiring", { threadId: stuck.threadId });
    assert.equal((await fresh.run()).outcome, "success", "a new client can continue the thread");
    assert.equal(fresh.texts.at(-1), "It was rejected, or not allowed in time.");
});

one("an answer before the deadline is accepted", async () => {
    for (const client of clients) {
        const front = new Front(server, client, "expiring");
        await front.say("soon, please");
        assert.equal((await front.answer(yes)).outcome, "success");
        assert.equal(front.state.executions, 1);
    }
});
