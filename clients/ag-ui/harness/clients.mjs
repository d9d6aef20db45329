//! Front ends with the published clients. A test fails if a client reports a warning or an error, throws, or drops an
//! event silently.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import * as v0 from "client-v0";
import * as v1 from "client-v1";
import { KEY } from "./server.mjs";
import { checkRun, events } from "./stream.mjs";

export const clients = [
    { name: "1.0.0", HttpAgent: v1.HttpAgent, modern: true },
    { name: "0.0.59", HttpAgent: v0.HttpAgent, modern: false },
];
export const [modern, old] = clients;

/** Defines the same test for each client. */
export function withBoth(name, check) {
    for (const client of clients) one(`${name} (client ${client.name})`, () => check(client));
}

export function one(name, check) {
    test(name, { timeout: 120_000 }, check);
}

const problems = [];
for (const level of ["warn", "error"]) {
    console[level] = (...words) => problems.push(words.map(String).join(" "));
}

/** A front end of one thread, as an application would have it. */
export class Front {
    constructor(server, client, agentId, { threadId = `thread-${randomUUID()}`, messages = [] } = {}) {
        Object.assign(this, { server, client, agentId, threadId });
        const url = `${server.url}/ag-ui/${agentId}`;
        const headers = { Authorization: `Bearer ${KEY}` };
        const recordedFetch = (address, request) => this.#fetch(address, request);
        this.agent = new client.HttpAgent({ url, headers, threadId, initialMessages: messages, fetch: recordedFetch });
    }

    get pending() {
        return this.agent.pendingInterrupts;
    }

    get state() {
        return this.agent.state;
    }

    get messages() {
        return this.agent.messages;
    }

    get texts() {
        return this.messages.filter(({ role, content }) => role === "assistant" && content).map(({ content }) => content);
    }

    /** Returns the contents of tool messages, parsed if they are JSON. */
    get results() {
        return this.messages.filter(({ role }) => role === "tool").map(({ toolCallId, content }) => ({ toolCallId, ...parsed(content) }));
    }

    say(content, parameters = {}) {
        this.agent.addMessage({ id: `said-${randomUUID()}`, role: "user", content });
        return this.run(parameters);
    }

    /** Answers all pending interrupts with the payloads, in their order; `"cancel"` cancels. */
    answer(...payloads) {
        return this.run({ resume: resume(this.pending, payloads) });
    }

    /** Executes one run, and returns its events and outcome. */
    async run(parameters = {}) {
        const seen = [];
        const subscriber = {
            onEvent: ({ event }) => void seen.push(structuredClone(event)),
            onMessagesSnapshotEvent: ({ event, messages }) => void checkMessages(messages, event.messages),
        };
        problems.length = 0;
        await this.agent.runAgent(parameters, subscriber);
        assert.deepEqual(problems, [], "the client reports no problems");
        const all = events(await this.streamText);
        const { threadId } = this;
        checkRun(all, { threadId, runId: this.sent.runId, modern: this.client.modern });
        // Runtimes of front ends keep the events of each run in this form.
        v0.compactEvents(structuredClone(all));
        assert.deepEqual(seen.map(withoutVersion), all.map(withoutVersion), "the client accepts every event with all its members");
        const ids = this.messages.map(({ id }) => id);
        assert.equal(new Set(ids).size, ids.length, `no message is duplicated: ${ids}`);
        if (all.at(-2).type === "MESSAGES_SNAPSHOT") {
            // Only the client keeps activities.
            const kept = this.messages.filter(({ role }) => role !== "activity").map(({ id }) => id);
            assert.deepEqual(kept, all.at(-2).messages.map(({ id }) => id), "the client has the messages in the order of the server");
        }
        return outcome(all);
    }

    async #fetch(address, request) {
        this.sent = JSON.parse(request.body);
        assert.equal("protocolVersion" in this.sent, this.client.modern);
        const response = await fetch(address, request);
        if (!response.ok) return response;
        const [mine, theirs] = response.body.tee();
        this.streamText = new Response(mine).text();
        this.streamText.catch(() => {});
        return new Response(theirs, { status: response.status, headers: response.headers });
    }
}

export function resume(interrupts, payloads) {
    return interrupts.map(({ id }, at) => {
        const payload = payloads[Math.min(at, payloads.length - 1)];
        if (payload === "cancel") return { interruptId: id, status: "cancelled" };
        return { interruptId: id, status: "resolved", payload };
    });
}

/** Sends an input that the client itself would reject. The client still reads the response. */
export async function post(server, agentId, input, { client = modern } = {}) {
    const body = { runId: `run-${randomUUID()}`, messages: [], tools: [], context: [], forwardedProps: {}, state: {}, ...input };
    if (client.modern) body.protocolVersion = "1.0";
    const response = await fetch(`${server.url}/ag-ui/${agentId}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", Accept: "text/event-stream" },
        body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) return { status: response.status, body: JSON.parse(text) };
    return { status: response.status, ...(await read(text, body, client)) };
}

/** Returns the outcome of a stream after the client has validated it with its schemas and its order rules. */
export async function read(text, { threadId, runId }, client = modern) {
    const all = events(text);
    checkRun(all, { threadId, runId, modern: client.modern });
    const headers = { "Content-Type": "text/event-stream" };
    const agent = new client.HttpAgent({ url: "http://nowhere.test", threadId, fetch: async () => new Response(text, { headers }) });
    const seen = [];
    problems.length = 0;
    await agent.runAgent({ runId }, { onEvent: ({ event }) => void seen.push(structuredClone(event)) });
    assert.deepEqual(problems, []);
    assert.deepEqual(seen.map(withoutVersion), all.map(withoutVersion));
    return outcome(all);
}

function outcome(all) {
    const types = all.map(({ type }) => type);
    const of = (type) => all.filter((event) => event.type === type);
    const last = all.at(-1);
    return {
        all, types, of,
        error: last.type === "RUN_ERROR" ? last : undefined,
        outcome: last.outcome?.type,
        interrupts: last.outcome?.interrupts,
        finish: last,
        state: of("STATE_SNAPSHOT").at(-1)?.snapshot,
        messages: of("MESSAGES_SNAPSHOT").at(-1)?.messages,
    };
}

/**
 * Checks that the messages from the stream equal those of the snapshot. The snapshot corrects two cases: results of
 * client tools, which have another id on the server, and the order of a client without the whole history.
 */
function checkMessages(received, snapshot) {
    const known = new Map(snapshot.map((message) => [message.id, message]));
    const answered = new Set(snapshot.map(({ toolCallId }) => toolCallId));
    for (const message of snapshot.length === 0 ? [] : received) {
        if (message.role === "activity") continue;
        if (message.role === "tool" && !known.has(message.id) && answered.has(message.toolCallId)) continue;
        assert.ok(known.has(message.id), `the snapshot keeps ${message.role} ${message.id}`);
        assert.deepEqual(plain(message), plain(known.get(message.id)), "the message is the same");
    }
}

/** Adds the defaults of absent members, so that messages can be compared. */
function plain(message) {
    const { content = "", toolCalls = [], ...rest } = JSON.parse(JSON.stringify(message));
    return { content, toolCalls, ...rest };
}

/** Removes the version, which the older client ignores, and the member of an activity whose default it adds. */
function withoutVersion(event) {
    const { protocolVersion, replace, ...rest } = event;
    return rest;
}

function parsed(content) {
    try {
        const value = JSON.parse(content);
        return value !== null && typeof value === "object" ? value : { text: content };
    } catch {
        return { text: content };
    }
}
