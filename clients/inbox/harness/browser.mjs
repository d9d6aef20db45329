//! Headless Chromium, one for each test file. A test fails if its page reports an error: a violation of the content
//! security policy, an error in the console, an exception, or an unexpected dialog.

import { readFileSync, existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { KEY } from "./server.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** A folder with page files that replace those of the server, to test changes without a build. */
const page_folder = process.env.HOLDPOINT_PAGE_FOLDER;
const pictures = process.env.HOLDPOINT_SCREENSHOTS;
const TIMEOUT_MS = 10_000;
const PHONE = { width: 375, height: 720 };

let browser = null;
/** Unused browser contexts. They have the page files in their cache, which saves most of the time of a visit. */
const idle = new Map();

async function theBrowser() {
    // Chromium has no sandbox for root, and checks run as root in containers.
    const args = ["--disable-dev-shm-usage", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])];
    browser ??= chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
    return browser;
}

after(async () => (await browser)?.close());

/** Defines a test whose users have their own browser contexts. Errors of their pages fail the test at its end. */
export function story(name, body) {
    test(name, { timeout: 60_000 }, async () => {
        const people = [];
        const openBrowser = async (server, options) => {
            const person = await Person.open(server, options);
            people.push(person);
            return person;
        };
        try {
            await body(openBrowser);
            for (const person of people) person.checkNoErrors();
        } catch (error) {
            const seen = await Promise.all(people.map(({ page }) => page.locator("body").innerText({ timeout: 500 }).catch(() => "")));
            const errors = people.flatMap(({ errors: own }) => own);
            throw new Error([error.stack, ...errors, ...seen].join("\n---\n"));
        } finally {
            await Promise.all(people.map((person) => person.close()));
        }
    });
}

class Person {
    /** @param {{key?: string | null, scheme?: "light" | "dark", isPhone?: boolean}} options without a key, the user is not signed in */
    static async open(server, { key = KEY, scheme = "light", isPhone = false } = {}) {
        const profile = [server.url, scheme, isPhone].join(" ");
        const context = idle.get(profile)?.pop() ?? (await newContext(server, scheme, isPhone));
        const page = await context.newPage();
        const person = new Person(server, context, page);
        person.profile = profile;
        if (key !== null) await person.signIn(key);
        return person;
    }

    constructor(server, context, page) {
        Object.assign(this, { server, context, page, errors: [], expected: [] });
        page.on("pageerror", (error) => this.errors.push(`exception: ${error.stack}`));
        page.on("console", (message) => {
            if (["error", "warning"].includes(message.type())) this.errors.push(`${message.text()} (${message.location().url})`);
        });
        page.on("dialog", (dialog) => {
            this.errors.push(`dialog: ${dialog.message()}`);
            dialog.dismiss();
        });
        page.on("request", (request) => {
            const isOurs = request.url().startsWith(server.url) || request.url().startsWith("data:");
            if (!isOurs) this.errors.push(`request to another server: ${request.url()}`);
        });
    }

    /** Closes the page, and removes the session and the storage, so that the context can be reused. */
    async close() {
        await this.page.evaluate(() => localStorage.clear()).catch(() => {});
        await this.page.close();
        if (this.hasOwnClock) return this.context.close();
        await this.context.clearCookies();
        idle.set(this.profile, [...(idle.get(this.profile) ?? []), this.context]);
    }

    /** Gives this browser its own clock, which `advanceClock` moves. Call it before the first page is opened. */
    async installClock() {
        this.hasOwnClock = true;
        await this.page.clock.install();
    }

    advanceClock(ms) {
        return this.page.clock.fastForward(ms);
    }

    /** Creates a session. */
    async signIn(key) {
        const answer = await this.context.request.post("/v1/session", { data: { key } });
        assert.equal(answer.status(), 201, await answer.text());
    }

    go(path) {
        return this.page.goto(path);
    }

    /** Opens a view like a link within the page: only the data of the view is loaded. */
    async navigate(path) {
        await this.page.evaluate((to) => {
            history.pushState(null, "", to);
            dispatchEvent(new PopStateEvent("popstate"));
        }, path);
        await this.page.locator("main:not([aria-busy])").waitFor();
    }

    /** Declares an expected error. The browser reports error responses as errors. */
    expectError(pattern) {
        this.expected.push(pattern);
    }

    checkNoErrors() {
        const left = this.errors.filter((words) => !this.expected.some((pattern) => pattern.test(words)));
        assert.deepEqual(left, [], "the page reports no errors");
    }

    button(name) {
        return this.page.getByRole("button", { name, exact: typeof name === "string" });
    }

    press(name) {
        return this.button(name).click();
    }

    /** Waits for visible text. The announcements for screen readers come earlier and do not count. */
    waitForText(words) {
        return this.page.locator("body > :not(#announce)").getByText(words).first().waitFor();
    }

    field(label) {
        return this.page.getByLabel(label);
    }

    /** Asserts that axe finds no serious accessibility problems. */
    async checkAccess(what) {
        await this.page.evaluate(axe);
        const found = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        const bad = found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
        const problems = bad.flatMap(({ id, nodes }) => nodes.map((node) => `${what}: ${id} at ${node.target} ${node.failureSummary}`));
        assert.deepEqual(problems, []);
        assert.ok(found.passes.length > 0, "axe has run its rules");
    }

    async checkWidth(what) {
        const { needed, there } = await this.page.evaluate(() => ({ needed: document.documentElement.scrollWidth, there: window.innerWidth }));
        assert.ok(needed <= there, `${what}: ${needed} px of content on a screen of ${there} px`);
    }

    async picture(name) {
        if (!pictures) return;
        mkdirSync(pictures, { recursive: true });
        await this.page.screenshot({ path: join(pictures, `${name}.png`) });
    }
}

async function newContext(server, scheme, isPhone) {
    const chrome = await theBrowser();
    const viewport = isPhone ? PHONE : { width: 1200, height: 850 };
    const context = await chrome.newContext({ baseURL: server.url, colorScheme: scheme, viewport, hasTouch: isPhone, reducedMotion: "reduce" });
    context.setDefaultTimeout(TIMEOUT_MS);
    if (page_folder) await context.route("**/inbox/assets/*/**", ownFile);
    return context;
}

function ownFile(route) {
    const name = new URL(route.request().url()).pathname.replace(/^.*\/assets\/[^/]+\//, "");
    const path = join(page_folder, name);
    return existsSync(path) ? route.fulfill({ path }) : route.continue();
}
