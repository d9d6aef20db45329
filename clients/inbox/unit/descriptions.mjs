//! Helpers that read descriptions in tests: their text, their elements, and whether the allowlist permits them.

import assert from "node:assert/strict";
import { isAllowedName, isAllowedTag, safeHref } from "../../../crates/holdpoint/src/inbox/page/allowed.js";

export const PAGE = "../../../crates/holdpoint/src/inbox/page";

/** Returns all elements of a description, including itself. */
export function elements(description) {
    if (typeof description === "string") {
        return [];
    }
    return [description, ...description.children.flatMap(elements)];
}

export function find(description, tag, name) {
    return elements(description).filter((element) => element.tag === tag && (!name || classes(element).includes(name)));
}

export function words(description) {
    return typeof description === "string" ? description : description.children.map(words).join("");
}

export function size(description) {
    return typeof description === "string" ? 1 : description.children.reduce((sum, child) => sum + size(child), 1);
}

export function depth(description) {
    return typeof description === "string" ? 0 : 1 + Math.max(0, ...description.children.map(depth));
}

/** Returns the description with its deferred parts, up to a number of levels. */
export function opened(description, levels = 4) {
    if (typeof description === "string") {
        return description;
    }
    const later = description.later && levels > 0 ? [description.later()].flat(Infinity) : [];
    const children = [...description.children, ...later];
    return { ...description, children: children.map((child) => opened(child, levels - (later.includes(child) ? 1 : 0))) };
}

/** Asserts that tags, attributes and addresses are allowed, handlers are functions and values are scalars. */
export function assertInert(description) {
    for (const { tag, attrs, on, children } of elements(opened(description))) {
        assert.ok(isAllowedTag(tag), `tag ${tag}`);
        for (const [name, value] of Object.entries(attrs)) {
            assert.ok(isAllowedName(name), `attribute ${name}`);
            assert.ok(!/^on|^style$|^src/i.test(name), `attribute ${name}`);
            assert.ok(["string", "number", "boolean", "undefined"].includes(typeof value), `${name} is ${typeof value}`);
        }
        if (attrs.href !== undefined) {
            assert.ok(safeHref(attrs.href) !== null, `address ${attrs.href}`);
            assert.match(attrs.href, /^(https?:|mailto:|#|\/|\.)/);
        }
        Object.values(on).forEach((handler) => assert.equal(typeof handler, "function"));
        children.filter((child) => typeof child === "string").forEach((text) => assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069\u0000-\u0008]/));
    }
}

function classes(element) {
    return String(element.attrs.class ?? "").split(" ");
}

/** Returns the CPU time of `work` in this process, in milliseconds. */
export function costMs(work) {
    const start = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1000;
}
