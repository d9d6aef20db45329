//! Starts a server for each test file: with the demo agents, on a free port, with a data folder that survives restarts
//! of the server and is removed after the tests.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import assert from "node:assert/strict";

export const KEY = "hp_test_for_the_ag_ui_clients_only";

const program = process.env.HOLDPOINT_BIN;
if (!program) throw new Error("HOLDPOINT_BIN must name the server; scripts/ag-ui-clients sets it");

/** Returns the server for all tests of a file. At the end it must shut down without errors. */
export function serving({ options = [], agents = [] } = {}) {
    const server = new Server(options);
    before(async () => {
        await server.start();
        for (const agent of agents) await server.declare(agent);
    });
    after(() => server.end());
    return server;
}

class Server {
    constructor(options) {
        this.options = options;
        this.listen = "127.0.0.1:0";
        this.log = "";
        this.data = mkdtempSync(join(tmpdir(), "holdpoint-ag-ui."));
        process.on("exit", () => {
            this.child?.kill("SIGKILL");
            rmSync(this.data, { recursive: true, force: true });
        });
    }

    async start() {
        const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(HOLDPOINT|OTEL)_/.test(name)));
        const arguments_ = ["serve", "--demo", "--listen", this.listen, "--data", this.data, "--bootstrap-key", KEY];
        this.child = spawn(program, [...arguments_, ...this.options], { env, stdio: ["ignore", "pipe", "pipe"] });
        this.ended = new Promise((resolve) => this.child.once("exit", (code, signal) => resolve({ code, signal })));
        this.child.stderr.on("data", (text) => (this.log += text));
        this.url = await this.#readAddress();
        // A restart uses the same address.
        this.listen = this.url.slice("http://".length);
    }

    #readAddress() {
        return new Promise((resolve, reject) => {
            let output = "";
            this.child.stdout.on("data", (text) => {
                output += text;
                const found = /is ready on (http:\S+)/.exec(output);
                if (found) resolve(found[1]);
            });
            this.ended.then((how) => reject(new Error(`the server ended with ${JSON.stringify(how)}: ${this.log}`)));
        });
    }

    /** Kills the server without a shutdown. */
    async kill() {
        this.child.kill("SIGKILL");
        await this.ended;
    }

    async restart() {
        await this.kill();
        await this.start();
    }

    async end() {
        this.child.kill("SIGTERM");
        const how = await this.ended;
        assert.deepEqual(how, { code: 0, signal: null }, this.log);
        assert.doesNotMatch(this.log, /ERROR|panicked/);
    }

    /** Sends a request with the key. Parses the body of a JSON response. */
    async request(method, path, body) {
        const response = await fetch(this.url + path, {
            method,
            headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" },
            body: body === undefined ? undefined : JSON.stringify(body),
        });
        const text = await response.text();
        const isJson = response.headers.get("content-type")?.includes("json");
        return { status: response.status, body: isJson ? JSON.parse(text) : text };
    }

    async declare(agent) {
        const { status, body } = await this.request("PUT", `/v1/agents/${agent.agentId}`, agent);
        assert.ok(status === 200 || status === 201, JSON.stringify(body));
    }

    async thread(agent, thread) {
        const { status, body } = await this.request("GET", `/ag-ui/${agent}/threads/${encodeURIComponent(thread)}`);
        assert.equal(status, 200, JSON.stringify(body));
        return body;
    }
}

/** Repeats `look` until it returns a value. The tests do not wait for fixed times. */
export async function until(what, look, most_ms = 30_000) {
    const last = Date.now() + most_ms;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > last) throw new Error(`timeout after ${most_ms} ms: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
