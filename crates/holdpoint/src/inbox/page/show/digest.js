//! Computes and describes the digest of the content.

import { h } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText, visible } from "./characters.js";

/**
 * Returns JSON in the canonical form of RFC 8785: sorted members, no white space. The RFC uses the number and string
 * formats of JavaScript.
 */
export function canonical(value) {
    if (Array.isArray(value)) {
        return `[${value.map(canonical).join(",")}]`;
    }
    if (value !== null && typeof value === "object") {
        const members = Object.keys(value).sort();
        return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
    }
    return JSON.stringify(value) ?? "null";
}

/**
 * Returns `sha256:` and the hex digest of the canonical form; null if the browser has no cryptography (a page without
 * https).
 * @returns {Promise<string | null>}
 */
export async function digestOf(value, subtle = globalThis.crypto?.subtle) {
    if (!subtle) {
        return null;
    }
    const bytes = await subtle.digest("SHA-256", new TextEncoder().encode(canonical(value)));
    const hex = Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0"));
    return `sha256:${hex.join("")}`;
}

/**
 * Compares `value` with a recorded digest.
 * @returns {Promise<"same" | "different" | "unknown">}
 */
export async function compareDigest(value, digest, subtle) {
    const own = await digestOf(value, subtle);
    if (own === null || typeof digest !== "string") {
        return "unknown";
    }
    return own === digest ? "same" : "different";
}

/** Returns the first and last digits of a digest. */
export function shortDigest(digest) {
    const found = /^(sha256:)?([0-9a-f]{8})[0-9a-f]+([0-9a-f]{8})$/.exec(digest);
    return found ? `${found[1] ?? ""}${found[2]}…${found[3]}` : shortText(digest, 40);
}

/**
 * Describes the short digest; when opened, the whole digest and the result of the comparison.
 * @param {string} digest
 * @param {"same" | "different" | "unknown"} [compared]
 */
export function digest(digest, compared) {
    const verdicts = { same: texts.digestSame, different: texts.digestDifferent, unknown: texts.digestUnknown };
    const verdict = compared && h("p", { class: `digest-${compared}`, role: compared === "different" && "alert" }, verdicts[compared]);
    const isOpen = compared === "different";
    return h(
        "details",
        { class: "digest", open: isOpen },
        h("summary", {}, `${texts.digest} `, h("code", { dir: "ltr" }, shortDigest(digest))),
        h("p", {}, `${texts.digestOf}: `, h("code", { class: "digest-whole", dir: "ltr" }, visible(digest))),
        verdict,
    );
}
