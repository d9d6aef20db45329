//! Whether a page has taken texts for more than texts.

import assert from "node:assert/strict";

/** Nothing of it has become an element, an attribute or a request, and nothing has run. */
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
    assert.match(await person.page.locator("main").innerText(), words, `${what}: it is there to read`);
}

/** Everything that can be opened is open, and everything that can be hovered is. */
export async function openAll(person) {
    await person.page.evaluate(() => document.querySelectorAll("main details").forEach((one) => (one.open = true)));
    const first = person.page.locator("main .untrusted").first();
    if (await first.count()) await first.hover();
}
