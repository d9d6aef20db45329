//! Sends an answer so that it counts once, however often it is sent.

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

/** The address and the body for an answer. Of several questions at one node the path means the oldest, so that the others go by call. */
export function requestFor(pause, value, { isOldest }) {
    const run = `/v1/runs/${encodeURIComponent(pause.runId)}`;
    const call = pause.data.toolCall?.id;
    if (isOldest || typeof call !== "string") {
        return { path: `${run}/interrupts/${encodeURIComponent(pause.nodeId)}`, body: withDigest(value, pause) };
    }
    return { path: `${run}/decision`, body: { toolCallId: call, ...decisionWords(value), ...digestOf(pause) } };
}

export function withDigest(value, pause) {
    return { resumeValue: value, ...digestOf(pause) };
}

function digestOf({ digest }) {
    return typeof digest === "string" ? { digest } : {};
}

/** An answer to a call in the words of `POST …/decision`; those of a question of a tool are already so. */
export function decisionWords(value) {
    if (value.action === "resume" || value.action === "cancel") {
        return value;
    }
    if (value.action === "reject") {
        return value.feedback ? { action: "cancel", reason: value.feedback } : { action: "cancel" };
    }
    return value.action === "edit-accept" ? { action: "resume", result: value.editedArtifactData } : { action: "resume" };
}
