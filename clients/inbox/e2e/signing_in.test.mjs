//! Getting in: by the link of the first start, by a key, and out again.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { KEY, onEach } from "../harness/server.mjs";
import { gate } from "../harness/workflows.mjs";

onEach("signing in", (server) => {
    story("the link of the first start signs in once, and leads to a first run that is approved", async (arrives) => {
        const first = await arrives(server, { key: null });
        await first.go(server.onceLink);
        await first.sees("Welcome");
        assert.ok(!first.page.url().includes("once"), "the secret is out of the address");
        await first.checkAccess("welcome");
        await first.picture("welcome-light");
        await first.press("Start the sample run");
        await first.page.waitForURL(/\/inbox\/pauses\//);
        await first.sees("Hello, world.");
        const runId = decodeURIComponent(first.page.url().split("/").at(-2));
        assert.equal((await server.does("GET", `/v1/runs/${runId}`)).status, "waiting-approval");
        await first.press("Accept");
        await first.sees("You accepted this.");
        await server.becomes({ runId }, "completed");

        const second = await arrives(server, { key: null });
        second.expects(/401/);
        await second.go(server.onceLink);
        await second.sees("This link was used already, or has expired.");
        assert.equal(await second.button("Sign in").count(), 1);
    });

    story("a key signs in, another does not, and signing out ends it", async (arrives) => {
        const ann = await arrives(server, { key: null });
        ann.expects(/401/);
        await ann.go("/inbox");
        await ann.press("Sign in");
        await ann.sees("Please enter a key.");
        await ann.field("API key").fill("hp_test_of_another_server");
        await ann.press("Sign in");
        await ann.sees("This key is not known here.");
        assert.equal(await ann.field("API key").getAttribute("aria-invalid"), "true");
        await ann.checkAccess("sign-in");
        await ann.field("API key").fill(KEY);
        await ann.page.keyboard.press("Enter");
        await ann.page.getByRole("heading", { level: 1 }).filter({ hasNotText: "Sign in" }).waitFor();
        const [cookie] = await ann.context.cookies();
        assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["holdpoint_session", true, "Strict"]);
        const kept = await ann.page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
        assert.ok(!kept.includes(KEY) && !kept.includes(cookie.value), "no script can read what signs in");

        await ann.page.locator("#top .account > summary").first().click();
        await ann.press("Sign out");
        await ann.sees("You are signed out.");
        assert.equal((await fetch(`${server.url}/v1/session`, { headers: { Cookie: `${cookie.name}=${cookie.value}` } })).status, 401);
        await ann.page.reload();
        await ann.field("API key").waitFor();
    });

    story("somebody whose session was ended elsewhere is asked to sign in, and goes on where they were", async (arrives) => {
        const ann = await arrives(server);
        ann.expects(/401/);
        await ann.go("/inbox?whose=all");
        await ann.page.getByRole("heading", { level: 1 }).waitFor();
        await ann.context.clearCookies();
        await ann.page.keyboard.press("m");
        await ann.sees("You were signed out, or the session is over.");
        const address = ann.page.url();
        await ann.field("API key").fill(KEY);
        await ann.press("Sign in");
        await ann.page.getByRole("heading", { level: 1 }).filter({ hasNotText: "Sign in" }).waitFor();
        assert.equal(ann.page.url(), address);
    });

    story("a session that is ended from another browser can do nothing more, and the one that ended it goes on", async (arrives) => {
        const key = await server.person("eve");
        const [desk, phone] = [await arrives(server, { key }), await arrives(server, { key, isPhone: true })];
        const pause = await server.asks(gate("ended"));
        phone.expects(/401/);
        await phone.go(pause.path);
        await phone.button("Accept").waitFor();
        await desk.go("/inbox");
        await desk.page.locator("#top .account > summary").click();
        await desk.press("Where you are signed in…");
        const dialog = desk.page.getByRole("dialog", { name: "Where you are signed in" });
        await dialog.locator("li").nth(1).waitFor();
        assert.deepEqual((await dialog.locator("li strong").allInnerTexts()).sort(), ["Another browser", "This browser"]);
        assert.equal(await dialog.locator("li", { hasText: "This browser" }).getByRole("button").count(), 0);
        await desk.checkAccess("sessions");
        await dialog.locator("li", { hasText: "Another browser" }).getByRole("button").click();
        await dialog.getByText("You are signed in nowhere else.").waitFor();

        await phone.press("Accept");
        await phone.sees("You were signed out, or the session is over.");
        assert.equal((await server.decision(pause)).status, "open", "nothing is decided by an ended session");
        await desk.press("Close");
        await desk.page.locator(".item-title", { hasText: "Is ended good?" }).click();
        await desk.press("Accept");
        await desk.sees("You accepted this.");
    });
});
