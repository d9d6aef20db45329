//! Controls headless Chromium with the DevTools protocol over a pipe. It requires only the browser.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { until } from "./server.mjs";

export class Browser {
    #calls = new Map();
    #next = 1;
    #rest = "";

    static async start() {
        const browser = new Browser();
        await browser.#launch();
        return browser;
    }

    async #launch() {
        this.profile = mkdtempSync(join(tmpdir(), "holdpoint-browser."));
        const options = [
            "--headless=new", "--remote-debugging-pipe", `--user-data-dir=${this.profile}`, "--no-first-run", "--disable-gpu",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--window-size=1200,850",
            // Chromium has no sandbox for root, and checks run as root in containers.
            ...(process.getuid() === 0 ? ["--no-sandbox"] : []),
        ];
        this.child = spawn(process.env.CHROMIUM ?? "chromium", options, {
            stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
            // A separate process group, so that its child processes end with it.
            detached: true,
        });
        this.ended = new Promise((resolve) => this.child.once("exit", resolve));
        const gone = new Promise((_, reject) => {
            this.child.once("error", (error) => reject(new Error(`Chromium does not start (scripts/check installs it): ${error.message}`)));
            this.child.once("exit", (code) => reject(new Error(`Chromium has ended with ${code}`)));
        });
        gone.catch(() => {});
        this.gone = gone;
        process.on("exit", () => this.#removeProfile());
        this.child.stdio[3].on("error", () => {});
        this.child.stdio[4].on("data", (text) => this.#receive(String(text)));
    }

    /** Opens a page that records its errors. */
    async open(url) {
        const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
        const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
        const page = new Page(this, sessionId, targetId);
        for (const domain of ["Page", "Runtime", "Log"]) await page.send(`${domain}.enable`);
        await page.go(url);
        return page;
    }

    send(method, params = {}, sessionId) {
        const id = this.#next++;
        const answer = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject, method }));
        this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
        return Promise.race([answer, this.gone]);
    }

    #receive(text) {
        const frames = (this.#rest + text).split("\0");
        this.#rest = frames.pop();
        for (const { id, result, error, method, params, sessionId } of frames.map((frame) => JSON.parse(frame))) {
            const call = this.#calls.get(id);
            this.#calls.delete(id);
            if (error) call?.reject(new Error(`${call.method}: ${error.message}`));
            else call?.resolve(result);
            if (method) this.listen?.(method, params, sessionId);
        }
    }

    async close() {
        this.#kill();
        await this.ended;
        this.#removeProfile();
    }

    #kill() {
        try {
            process.kill(-this.child.pid, "SIGKILL");
        } catch {
            // The process has already ended.
        }
    }

    #removeProfile() {
        this.#kill();
        rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    }
}

class Page {
    constructor(browser, sessionId, targetId) {
        Object.assign(this, { browser, sessionId, targetId, problems: [] });
        browser.listen = (method, params, from) => {
            if (from !== sessionId) return;
            if (method === "Runtime.exceptionThrown") this.problems.push(params.exceptionDetails.exception?.description);
            if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type)) {
                this.problems.push(params.args.map(({ value, description }) => value ?? description).join(" "));
            }
            // The page requests its thread before the thread exists; the browser reports the 404.
            const missing = params.entry?.source === "network" && /404/.test(params.entry.text) && /\/threads\//.test(params.entry.url);
            if (method === "Log.entryAdded" && params.entry.level === "error" && !missing) this.problems.push(params.entry.text);
        };
    }

    send(method, params) {
        return this.browser.send(method, params, this.sessionId);
    }

    async go(url) {
        await this.send("Page.navigate", { url });
        await this.sees("the page has loaded", `location.href !== "about:blank" && document.readyState === "complete"`);
    }

    /** Reloads the page. */
    async reload() {
        await this.evaluate("window.isOld = true");
        await this.send("Page.reload");
        await this.sees("the page has loaded again", `window.isOld === undefined && document.readyState === "complete"`);
    }

    async evaluate(expression) {
        const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
    }

    /** Waits until the expression is true. During a navigation the expression cannot be evaluated and is retried. */
    async sees(what, expression) {
        try {
            return await until(what, () => this.evaluate(expression).catch(() => undefined), 20_000);
        } catch (error) {
            const shown = await this.evaluate("document.body.innerText");
            throw new Error(`${error.message}\n${shown}\n${this.problems.join("\n")}`);
        }
    }

    text(selector) {
        return this.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent`);
    }

    async fill(selector, value) {
        const [where, what] = [selector, value].map((one) => JSON.stringify(one));
        await this.sees(`there is ${selector}`, `document.querySelector(${where}) !== null`);
        await this.evaluate(`Object.assign(document.querySelector(${where}), { value: ${what} }).dispatchEvent(new Event("change", { bubbles: true }))`);
    }

    /** Presses the button with this text. */
    async press(text) {
        const button = `[...document.querySelectorAll("button")].find((one) => one.textContent === ${JSON.stringify(text)} && !one.disabled)`;
        await this.sees(`there is a button ${text}`, `${button} !== undefined`);
        await this.evaluate(`${button}.click()`);
    }

    close() {
        return this.browser.send("Target.closeTarget", { targetId: this.targetId });
    }

    async screenshot(file) {
        const { data } = await this.send("Page.captureScreenshot", { format: "png" });
        writeFileSync(file, Buffer.from(data, "base64"));
    }

    checkNoErrors() {
        assert.deepEqual(this.problems, [], "the page reports no errors");
    }
}
