//! Checks that a page shows untrusted texts as text.

import assert from "node:assert/strict";

/** Asserts that no text became an element, an attribute or an address, and that no script of it was executed. */
export async function checkInert(person, what, words = /<img src=x onerror=/) {
    const found = await person.page.evaluate(() => {
        const all = [...document.querySelectorAll("body *")];
        const names = ["script", "iframe", "style", "img", "base", "meta", "object", "embed", "math", "link", "video", "audio"];
        const attributes = all.flatMap((element) => [...element.attributes].map(({ name, value }) => [element.localName, name, value]));
        return {
            hit: window.hit ?? null,
            elements: all.map(({ localName }) => localName).filter((name) => names.includes(name)),
            handlers: attributes.filter(([, name]) => /^on/i.test(name)),
            styles: attributes.filter(([, name]) => ["style", "srcdoc", "src", "action", "formaction"].includes(name)),
            addresses: attributes.filter(([, name, value]) => /href$/.test(name) && !/^(https?:|mailto:|\/|#|\?)/i.test(value)),
        };
    });
    assert.deepEqual(found, { hit: null, elements: [], handlers: [], styles: [], addresses: [] }, what);
    assert.match(await person.page.locator("main").innerText(), words, `${what}: the text is visible`);
}

/** Opens all details elements, and hovers over the first untrusted content. */
export async function openAll(person) {
    await person.page.evaluate(() => document.querySelectorAll("main details").forEach((one) => (one.open = true)));
    const first = person.page.locator("main .untrusted").first();
    if (await first.count()) await first.hover();
}
