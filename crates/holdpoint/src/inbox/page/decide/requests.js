//! Requests with idempotency keys: an answer that is sent several times counts once.

import { interruptPath } from "../api.js";

/** Returns a function from a body to its idempotency key: equal bodies have the same key. */
export function createIdempotencyKeys(random = randomName) {
    const keys = new Map();
    return (body) => {
        const text = JSON.stringify(body);
        if (!keys.has(text)) {
            keys.set(text, random());
        }
        return keys.get(text);
    };
}

// `crypto.randomUUID` exists only with https or on localhost.
function randomName() {
    const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
    return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Returns the path and the body of an answer. The body names the interrupt, because a node may have several. */
export function requestFor(interrupt, value) {
    const { runId, nodeId, interruptId } = interrupt;
    return { path: interruptPath(runId, nodeId), body: { ...withDigest(value, interrupt), interruptId } };
}

export function withDigest(value, interrupt) {
    const { digest } = interrupt;
    return typeof digest === "string" ? { resumeValue: value, digest } : { resumeValue: value };
}
