//! Sign-in with a link and with a key, and sign-out.

import assert from "node:assert/strict";
import { story } from "../harness/browser.mjs";
import { KEY, onEachDatabase } from "../harness/server.mjs";
import { gate } from "../harness/workflows.mjs";

onEachDatabase("signing in", (server) => {
    story("a sign-in link works once, and the sample run is accepted", async (openBrowser) => {
        const first = await openBrowser(server, { key: null });
        await first.go(server.signInLink);
        await first.waitForText("Welcome");
        assert.ok(!first.page.url().includes("once"), "the secret is removed from the address");
        await first.checkAccess("welcome");
        await first.picture("welcome-light");
        await first.press("Start the sample run");
        await first.page.waitForURL(/\/inbox\/pauses\//);
        await first.waitForText("Hello, world.");
        const runId = decodeURIComponent(first.page.url().split("/").at(-2));
        assert.equal((await server.call("GET", `/v1/runs/${runId}`)).status, "waiting-approval");
        await first.press("Accept");
        await first.waitForText("You accepted this.");
        await server.waitForStatus({ runId }, "completed");

        const second = await openBrowser(server, { key: null });
        second.expectError(/401/);
        await second.go(server.signInLink);
        await second.waitForText("This link was already used or has expired.");
        assert.equal(await second.button("Sign in").count(), 1);
    });

    story("a valid key signs in, an invalid key does not, and signing out ends the session", async (openBrowser) => {
        const ann = await openBrowser(server, { key: null });
        ann.expectError(/401/);
        await ann.go("/inbox");
        await ann.press("Sign in");
        await ann.waitForText("Please enter a key.");
        await ann.field("API key").fill("hp_test_of_another_server");
        await ann.press("Sign in");
        await ann.waitForText("This server does not know this key.");
        assert.equal(await ann.field("API key").getAttribute("aria-invalid"), "true");
        await ann.checkAccess("sign-in");
        await ann.field("API key").fill(KEY);
        await ann.page.keyboard.press("Enter");
        await ann.page.getByRole("heading", { level: 1 }).filter({ hasNotText: "Sign in" }).waitFor();
        const [cookie] = await ann.context.cookies();
        assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["holdpoint_session", true, "Strict"]);
        const kept = await ann.page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
        assert.ok(!kept.includes(KEY) && !kept.includes(cookie.value), "scripts cannot read the key or the session");

        await ann.page.locator("#top .account > summary").first().click();
        await ann.press("Sign out");
        await ann.waitForText("You are signed out.");
        assert.equal((await fetch(`${server.url}/v1/session`, { headers: { Cookie: `${cookie.name}=${cookie.value}` } })).status, 401);
        await ann.page.reload();
        await ann.field("API key").waitFor();
    });

    story("a user whose session has ended signs in and returns to the same page", async (openBrowser) => {
        const ann = await openBrowser(server);
        ann.expectError(/401/);
        await ann.go("/inbox?whose=all");
        await ann.page.getByRole("heading", { level: 1 }).waitFor();
        await ann.context.clearCookies();
        await ann.page.keyboard.press("m");
        await ann.waitForText("You were signed out, or the session has ended.");
        const address = ann.page.url();
        await ann.field("API key").fill(KEY);
        await ann.press("Sign in");
        await ann.page.getByRole("heading", { level: 1 }).filter({ hasNotText: "Sign in" }).waitFor();
        assert.equal(ann.page.url(), address);
    });

    story("a session that was ended from another browser cannot decide, and the other session continues", async (openBrowser) => {
        const key = await server.createKey("eve");
        const [desk, phone] = [await openBrowser(server, { key }), await openBrowser(server, { key, isPhone: true })];
        const interrupt = await server.openInterrupt(gate("ended"));
        phone.expectError(/401/);
        await phone.go(interrupt.path);
        await phone.button("Accept").waitFor();
        await desk.go("/inbox");
        await desk.page.locator("#top .account > summary").click();
        await desk.press("Sessions…");
        const dialog = desk.page.getByRole("dialog", { name: "Sessions" });
        await dialog.locator("li").nth(1).waitFor();
        assert.deepEqual((await dialog.locator("li strong").allInnerTexts()).sort(), ["Another browser", "This browser"]);
        assert.equal(await dialog.locator("li", { hasText: "This browser" }).getByRole("button").count(), 0);
        await desk.checkAccess("sessions");
        await dialog.locator("li", { hasText: "Another browser" }).getByRole("button").click();
        await dialog.getByText("You have no other sessions.").waitFor();

        const refused = await phone.context.request.post(`/v1/runs/${interrupt.runId}/interrupts/${interrupt.nodeId}`, {
            data: { resumeValue: { action: "accept" } },
            headers: { "x-holdpoint-page": "1" },
        });
        assert.equal(refused.status(), 401, await refused.text());
        // The view reads the interrupt again at an interval. On a slow machine it sees the end of the session before the
        // click.
        const signed_out = "You were signed out, or the session has ended.";
        await Promise.any([phone.press("Accept"), phone.waitForText(signed_out)]);
        await phone.waitForText(signed_out);
        assert.equal((await server.readInterrupt(interrupt)).status, "open", "an ended session cannot decide");
        await desk.press("Close");
        await desk.page.locator(".item-title", { hasText: "Is ended good?" }).click();
        await desk.press("Accept");
        await desk.waitForText("You accepted this.");
    });
});
