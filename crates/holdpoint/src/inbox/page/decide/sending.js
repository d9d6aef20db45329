//! Sends an answer so that it counts once, however often it is sent.

import { pausePath } from "../api.js";

/** One name for one answer: the same body again goes under the same key, another one under another. */
export function keyring(random = randomName) {
    const keys = new Map();
    return (body) => {
        const text = JSON.stringify(body);
        if (!keys.has(text)) {
            keys.set(text, random());
        }
        return keys.get(text);
    };
}

// `crypto.randomUUID` is only there with https or on this very machine.
function randomName() {
    const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
    return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The path and the body of an answer. The body names the interrupt that was shown, because a node may have several. */
export function requestFor(pause, value) {
    const { runId, nodeId, interruptId } = pause;
    return { path: pausePath(runId, nodeId), body: { ...withDigest(value, pause), interruptId } };
}

export function withDigest(value, pause) {
    const { digest } = pause;
    return typeof digest === "string" ? { resumeValue: value, digest } : { resumeValue: value };
}
