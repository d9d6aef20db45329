//! A server for the tests of a group: with the demo agents, on a free port, on each database in turn.

import { spawn } from "node:child_process";
import { after, before, describe } from "node:test";
import assert from "node:assert/strict";
import { engines, Place } from "./place.mjs";

export const KEY = "hp_test_for_the_inbox_in_browsers_only";

const program = process.env.HOLDPOINT_BIN;
if (!program) throw new Error("HOLDPOINT_BIN must name the server; scripts/inbox-tests does that");

/** The same tests on each database. At the end the server must go down by itself, and have nothing to complain about. */
export function onEach(about, tell) {
    on(engines, about, tell);
}

/** Tests of how things look, which no database changes. */
export function onOne(about, tell) {
    on(engines.slice(0, 1), about, tell);
}

function on(some, about, tell) {
    for (const engine of some) {
        describe(`${about} (${engine})`, () => {
            const server = new Server(engine);
            before(() => server.start());
            after(() => server.end());
            tell(server);
        });
    }
}

class Server {
    constructor(engine) {
        this.engine = engine;
        this.log = "";
        this.said = "";
    }

    async start() {
        this.place = new Place(this.engine);
        const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(HOLDPOINT|OTEL)_/.test(name)));
        const options = ["serve", "--demo", "--listen", "127.0.0.1:0", "--bootstrap-key", KEY, ...this.place.options];
        this.child = spawn(program, options, { env, stdio: ["ignore", "pipe", "pipe"] });
        process.on("exit", () => this.child.kill("SIGKILL"));
        this.ended = new Promise((resolve) => this.child.once("exit", (code, signal) => resolve({ code, signal })));
        this.child.stderr.on("data", (text) => (this.log += text));
        const ready = new Promise((resolve) => this.child.stdout.on("data", (text) => {
            this.said += text;
            if (/inbox --link/.test(this.said)) resolve();
        }));
        const gone = this.ended.then((how) => {
            throw new Error(`the server ended with ${JSON.stringify(how)}: ${this.log}`);
        });
        gone.catch(() => {});
        await Promise.race([ready, gone]);
        this.url = /is ready on (http:\S+)/.exec(this.said)[1];
        // Links are printed to terminals only.
        const link = await this.request("POST", "/v1/session:link", { keyId: "key_owner" });
        this.onceLink = link.body.url;
    }

    async end() {
        this.child.kill("SIGTERM");
        const how = await this.ended;
        this.place.remove();
        assert.deepEqual(how, { code: 0, signal: null }, this.log);
        assert.doesNotMatch(this.log, /ERROR|panicked/);
    }

    /** Any request, with a key. The body of the answer is parsed where it is JSON. */
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

    /** A request that must be answered with a success. */
    async does(method, path, body, key) {
        const answer = await this.request(method, path, body, key);
        assert.ok(answer.status >= 200 && answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
        return answer.body;
    }

    /** Starts a run of this workflow, and looks until it asks something. */
    async asks(workflow, inputs = {}) {
        await this.does("PUT", `/v1/workflows/${workflow.id}`, workflow);
        return this.starts(workflow.id, inputs);
    }

    async starts(workflowId, inputs = {}) {
        const { runId } = await this.does("POST", "/v1/runs", { workflowId, inputs });
        return this.opened(runId);
    }

    opened(runId) {
        return until(`${runId} asks something`, async () => {
            const { interrupts } = await this.does("GET", `/v1/runs/${encodeURIComponent(runId)}/interrupts`);
            const open = interrupts.find(({ status }) => status === "open");
            return open && { ...open, runId, path: `/inbox/pauses/${encodeURIComponent(runId)}/${encodeURIComponent(open.nodeId)}` };
        });
    }

    answer({ runId, nodeId }, resumeValue, key) {
        return this.does("POST", `/v1/runs/${runId}/interrupts/${nodeId}`, { resumeValue }, key);
    }

    /** What was decided about an interrupt, as the server has recorded it. */
    async decision({ runId, interruptId }) {
        const { interrupts } = await this.does("GET", `/v1/runs/${encodeURIComponent(runId)}/interrupts`);
        return interrupts.find((one) => one.interruptId === interruptId);
    }

    /** What was answered. */
    answered(pause) {
        return until("it is answered", async () => {
            const { status, decision } = await this.decision(pause);
            return status === "answered" && decision.value;
        });
    }

    becomes({ runId }, status) {
        return until(`the run becomes ${status}`, async () => (await this.does("GET", `/v1/runs/${encodeURIComponent(runId)}`)).status === status);
    }

    /** A key of this principal that may answer; `more` are its roles and groups, or all of its scopes. */
    async person(principal, more = {}) {
        const scopes = more.scopes ? {} : { addScopes: ["approvals:respond"] };
        return (await this.does("POST", "/v1/keys", { principal, ...scopes, ...more })).key;
    }

    /** Makes a hold as a program does: with a key of its own, so that the principal that is signed in may answer. */
    async hold(body) {
        this.program ??= this.person("program");
        return this.does("POST", "/v1/holds", body, await this.program);
    }
}

/** Looks again until it is so. Nothing here waits for a fixed time. */
export async function until(what, look, most_ms = 10_000) {
    const last = Date.now() + most_ms;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > last) throw new Error(`this did not happen in ${most_ms} ms: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
