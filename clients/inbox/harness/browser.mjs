//! Debian's Chromium without a window, one for each file of tests. Whatever a page complains about fails its test: what the
//! content security policy stops, errors in the console, exceptions, dialogs that nobody has asked for.

import { readFileSync, existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { KEY } from "./server.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** A folder of the page's files that are used instead of those inside the server, to try changes without a build. */
const page_folder = process.env.HOLDPOINT_PAGE_FOLDER;
const pictures = process.env.HOLDPOINT_SCREENSHOTS;
const TIMEOUT_MS = 10_000;
const PHONE = { width: 375, height: 720 };

let browser = null;
/** Profiles that nobody uses now: they have the files of the page already, which takes most of the time of a visit. */
const idle = new Map();

async function theBrowser() {
    // Chromium has no sandbox for root, which is what checks run as in containers.
    const args = ["--disable-dev-shm-usage", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])];
    browser ??= chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
    return browser;
}

after(async () => (await browser)?.close());

/** A test with people in browsers of their own. What their pages complained about is judged at its end. */
export function story(name, tell) {
    test(name, { timeout: 60_000 }, async () => {
        const people = [];
        const join_in = async (server, options) => {
            const person = await Person.arrive(server, options);
            people.push(person);
            return person;
        };
        try {
            await tell(join_in);
            for (const person of people) person.checkQuiet();
        } catch (error) {
            const seen = await Promise.all(people.map(({ page }) => page.locator("body").innerText({ timeout: 500 }).catch(() => "")));
            const said = people.flatMap(({ complaints }) => complaints);
            throw new Error([error.stack, ...said, ...seen].join("\n---\n"));
        } finally {
            await Promise.all(people.map((person) => person.leave()));
        }
    });
}

class Person {
    /** @param {{key?: string | null, scheme?: "light" | "dark", isPhone?: boolean}} options without a key: not signed in */
    static async arrive(server, { key = KEY, scheme = "light", isPhone = false } = {}) {
        const profile = [server.url, scheme, isPhone].join(" ");
        const context = idle.get(profile)?.pop() ?? (await newContext(server, scheme, isPhone));
        const page = await context.newPage();
        const person = new Person(server, context, page);
        person.profile = profile;
        if (key !== null) await person.signIn(key);
        return person;
    }

    constructor(server, context, page) {
        Object.assign(this, { server, context, page, complaints: [], expected: [] });
        page.on("pageerror", (error) => this.complaints.push(`exception: ${error.stack}`));
        page.on("console", (message) => {
            if (["error", "warning"].includes(message.type())) this.complaints.push(`${message.text()} (${message.location().url})`);
        });
        page.on("dialog", (dialog) => {
            this.complaints.push(`dialog: ${dialog.message()}`);
            dialog.dismiss();
        });
        page.on("request", (request) => {
            const isOurs = request.url().startsWith(server.url) || request.url().startsWith("data:");
            if (!isOurs) this.complaints.push(`asks elsewhere: ${request.url()}`);
        });
    }

    /** Leaves nothing behind that the next one could be somebody by. */
    async leave() {
        await this.page.evaluate(() => localStorage.clear()).catch(() => {});
        await this.page.close();
        if (this.hasOwnClock) return this.context.close();
        await this.context.clearCookies();
        idle.set(this.profile, [...(idle.get(this.profile) ?? []), this.context]);
    }

    /** From now on this browser has a clock of its own, by which `passes` lets time pass at once. Before anything is opened. */
    async takesClock() {
        this.hasOwnClock = true;
        await this.page.clock.install();
    }

    passes(ms) {
        return this.page.clock.fastForward(ms);
    }

    /** A session as the sign-in makes one. */
    async signIn(key) {
        const answer = await this.context.request.post("/v1/session", { data: { key } });
        assert.equal(answer.status(), 201, await answer.text());
    }

    go(path) {
        return this.page.goto(path);
    }

    /** As if a link within the page was followed: nothing is loaded again but what the view needs. */
    async moves(path) {
        await this.page.evaluate((to) => {
            history.pushState(null, "", to);
            dispatchEvent(new PopStateEvent("popstate"));
        }, path);
        await this.page.locator("main:not([aria-busy])").waitFor();
    }

    /** The browser reports answers that are no success as errors; those that belong to the story are named. */
    expects(pattern) {
        this.expected.push(pattern);
    }

    checkQuiet() {
        const left = this.complaints.filter((words) => !this.expected.some((pattern) => pattern.test(words)));
        assert.deepEqual(left, [], "the page has nothing to complain about");
    }

    button(name) {
        return this.page.getByRole("button", { name, exact: typeof name === "string" });
    }

    press(name) {
        return this.button(name).click();
    }

    /** Waits for words to be there to read. What readers of the screen are told comes earlier, and does not count. */
    sees(words) {
        return this.page.locator("body > :not(#announce)").getByText(words).first().waitFor();
    }

    field(label) {
        return this.page.getByLabel(label);
    }

    /** Nothing serious that keeps somebody out, by the rules of axe. */
    async checkAccess(what) {
        await this.page.evaluate(axe);
        const found = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        const bad = found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
        const told = bad.flatMap(({ id, nodes }) => nodes.map((node) => `${what}: ${id} at ${node.target} ${node.failureSummary}`));
        assert.deepEqual(told, []);
        assert.ok(found.passes.length > 0, "axe has looked");
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
