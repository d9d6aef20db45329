//! The digest of what is shown: in a form people can compare, and worked out again from what this page has.

import { h } from "../dom.js";
import { show as texts } from "../texts/show.js";
import { shortText, visible } from "./characters.js";

/**
 * JSON in the canonical form of RFC 8785: members sorted, no space. What JavaScript writes for numbers and strings is
 * what the RFC asks for.
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
 * `sha256:` and hex over the canonical form; null where the browser offers no cryptography (a page without https).
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
 * Whether `value` is what was recorded under `digest`.
 * @returns {Promise<"same" | "different" | "unknown">}
 */
export async function compareDigest(value, digest, subtle) {
    const own = await digestOf(value, subtle);
    if (own === null || typeof digest !== "string") {
        return "unknown";
    }
    return own === digest ? "same" : "different";
}

/** The first and last digits of a digest. */
export function shortDigest(digest) {
    const found = /^(sha256:)?([0-9a-f]{8})[0-9a-f]+([0-9a-f]{8})$/.exec(digest);
    return found ? `${found[1] ?? ""}${found[2]}…${found[3]}` : shortText(digest, 40);
}

/**
 * The short form; opened, the whole digest and what comparing it has shown.
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
