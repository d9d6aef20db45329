//! Starts a server for a group of tests: with the demo agents, on a free port, on each database.

import { spawn } from "node:child_process";
import { after, before, describe } from "node:test";
import assert from "node:assert/strict";
import { engines, Database } from "./database.mjs";

export const KEY = "hp_test_for_the_inbox_in_browsers_only";

const program = process.env.HOLDPOINT_BIN;
if (!program) throw new Error("HOLDPOINT_BIN must name the server; scripts/inbox-tests sets it");

/** Runs the tests on each database. At the end the server must shut down without errors. */
export function onEachDatabase(about, define) {
    on(engines, about, define);
}

/** Runs the tests on one database, for tests that do not depend on it. */
export function onOneDatabase(about, define) {
    on(engines.slice(0, 1), about, define);
}

function on(some, about, define) {
    for (const engine of some) {
        describe(`${about} (${engine})`, () => {
            const server = new Server(engine);
            before(() => server.start());
            after(() => server.end());
            define(server);
        });
    }
}

class Server {
    constructor(engine) {
        this.engine = engine;
        this.log = "";
        this.output = "";
    }

    async start() {
        this.database = new Database(this.engine);
        const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(HOLDPOINT|OTEL)_/.test(name)));
        const options = ["serve", "--demo", "--listen", "127.0.0.1:0", "--bootstrap-key", KEY, ...this.database.options];
        this.child = spawn(program, options, { env, stdio: ["ignore", "pipe", "pipe"] });
        process.on("exit", () => this.child.kill("SIGKILL"));
        this.ended = new Promise((resolve) => this.child.once("exit", (code, signal) => resolve({ code, signal })));
        this.child.stderr.on("data", (text) => (this.log += text));
        const ready = new Promise((resolve) => this.child.stdout.on("data", (text) => {
            this.output += text;
            if (/inbox --link/.test(this.output)) resolve();
        }));
        const exited = this.ended.then((how) => {
            throw new Error(`the server ended with ${JSON.stringify(how)}: ${this.log}`);
        });
        exited.catch(() => {});
        await Promise.race([ready, exited]);
        this.url = /is ready on (http:\S+)/.exec(this.output)[1];
        // The server prints sign-in links only to terminals.
        const link = await this.request("POST", "/v1/session:link", { keyId: "key_owner" });
        this.signInLink = link.body.url;
    }

    async end() {
        this.child.kill("SIGTERM");
        const how = await this.ended;
        this.database.remove();
        assert.deepEqual(how, { code: 0, signal: null }, this.log);
        assert.doesNotMatch(this.log, /ERROR|panicked/);
    }

    /** Sends a request with a key. Parses the body of a JSON response. */
    async request(method, path, body, key = KEY) {
        const response = await fetch(this.url + path, {
            method,
            headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
            body: body === undefined ? undefined : JSON.stringify(body),
        });
        const text = await response.text();
        const isJson = response.headers.get("content-type")?.includes("json");
        return { status: response.status, body: isJson ? JSON.parse(text) : text };
    }

    /** Sends a request and asserts that it succeeds. */
    async call(method, path, body, key) {
        const answer = await this.request(method, path, body, key);
        assert.ok(answer.status >= 200 && answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
        return answer.body;
    }

    /** Registers the workflow, starts a run, and waits for its open interrupt. */
    async openInterrupt(workflow, inputs = {}) {
        await this.call("PUT", `/v1/workflows/${workflow.id}`, workflow);
        return this.startRun(workflow.id, inputs);
    }

    async startRun(workflowId, inputs = {}) {
        const { runId } = await this.call("POST", "/v1/runs", { workflowId, inputs });
        return this.waitForInterrupt(runId);
    }

    waitForInterrupt(runId) {
        return waitUntil(`${runId} has an open interrupt`, async () => {
            const { interrupts } = await this.call("GET", `/v1/runs/${encodeURIComponent(runId)}/interrupts`);
            const open = interrupts.find(({ status }) => status === "open");
            return open && { ...open, runId, path: `/inbox/pauses/${encodeURIComponent(runId)}/${encodeURIComponent(open.nodeId)}` };
        });
    }

    answer({ runId, nodeId }, resumeValue, key) {
        return this.call("POST", `/v1/runs/${runId}/interrupts/${nodeId}`, { resumeValue }, key);
    }

    /** Reads an interrupt from the server. */
    async readInterrupt({ runId, interruptId }) {
        const { interrupts } = await this.call("GET", `/v1/runs/${encodeURIComponent(runId)}/interrupts`);
        return interrupts.find((one) => one.interruptId === interruptId);
    }

    /** Waits for the answer of an interrupt and returns it. */
    waitForAnswer(interrupt) {
        return waitUntil("the interrupt is answered", async () => {
            const { status, decision } = await this.readInterrupt(interrupt);
            return status === "answered" && decision.value;
        });
    }

    waitForStatus({ runId }, status) {
        return waitUntil(`the run has the status ${status}`, async () => (await this.call("GET", `/v1/runs/${encodeURIComponent(runId)}`)).status === status);
    }

    /** Creates a key of a principal that may answer. `more` has its roles and groups, or all of its scopes. */
    async createKey(principal, more = {}) {
        const scopes = more.scopes ? {} : { addScopes: ["approvals:respond"] };
        return (await this.call("POST", "/v1/keys", { principal, ...scopes, ...more })).key;
    }

    /** Creates a hold with a separate key, so that the signed-in principal may answer it. */
    async createHold(body) {
        this.program ??= this.createKey("program");
        return this.call("POST", "/v1/holds", body, await this.program);
    }
}

/** Repeats `look` until it returns a value. The tests do not wait for fixed times. */
export async function waitUntil(what, look, most_ms = 10_000) {
    const last = Date.now() + most_ms;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > last) throw new Error(`timeout after ${most_ms} ms: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
