//! Calls the public API with the cookie of the session, and with the header that shows that this page sends the
//! request. Does not know the views.

import { shell as texts } from "./texts/shell.js";

/**
 * The documents of the API. The file is generated and serves editors and type checkers; browsers do not load it.
 * @typedef {import("../api-types.js").Error} ErrorBody
 * @typedef {import("../api-types.js").ErrorDetails} ErrorDetails
 * @typedef {import("../api-types.js").ResolveInterrupt} ResolveInterrupt
 * @typedef {import("../api-types.js").InterruptResolved} InterruptResolved
 *
 * @typedef {Object} CallOptions
 * @property {Object<string, unknown>} [query]
 * @property {unknown} [body]
 * @property {string} [idempotencyKey]
 * @property {AbortSignal} [signal]
 * @property {boolean} [isQuiet] a 401 is not reported to `isSignedOut`
 * @property {Record<string, string>} [headers]
 */

/** An error response of the server. If the server cannot be reached, `status` is 0 and `code` is `unreachable`. */
export class Problem extends Error {
    /**
     * @param {number} status
     * @param {string} code
     * @param {string} message
     * @param {ErrorDetails | undefined} details
     */
    constructor(status, code, message, details) {
        super(message);
        this.name = "Problem";
        this.status = status;
        this.code = code;
        this.details = details;
    }
}

/**
 * Returns whether the message of a problem comes from the server. The page writes the messages for unreachable servers
 * and unreadable responses itself.
 * @param {{code: string}} problem
 */
export function isServerMessage({ code }) {
    return code !== "unreachable" && code !== "not_json" && !/^http_/.test(code);
}

/** Smaller differences of the clocks are ignored: the `date` header has whole seconds. */
const CLOCK_TOLERANCE_MS = 5000;

/**
 * @param {{root: string, fetch: typeof globalThis.fetch, isSignedOut?: (problem: Problem) => void, now?: () => number}} options
 *   `root` is the address above `/v1`; `isSignedOut` is called with every 401.
 */
export function createApi({ root, fetch, isSignedOut = () => {}, now = Date.now }) {
    let offset_ms = 0;

    /**
     * @param {string} method
     * @param {string} path
     * @param {CallOptions} [options]
     * @returns {Promise<any>} the document, whose type the caller names; null if the response has none
     */
    async function call(method, path, { query, body, idempotencyKey, signal, isQuiet, headers = {} } = {}) {
        /** @type {RequestInit & {headers: Record<string, string>}} */
        const request = { method, headers: { accept: "application/json", ...headers }, signal, credentials: "same-origin", cache: "no-store" };
        if (method !== "GET") {
            request.headers["x-holdpoint-page"] = "1";
        }
        if (body !== undefined) {
            request.headers["content-type"] = "application/json";
            request.body = JSON.stringify(body);
        }
        if (idempotencyKey) {
            request.headers["idempotency-key"] = idempotencyKey;
        }
        const response = await fetchResponse(fetch, address(root, path, query), request);
        offset_ms = offsetOf(response.headers.get("date"), now());
        if (response.ok) {
            return response.status === 204 ? null : readJson(response);
        }
        const problem = await problemOf(response);
        if (problem.status === 401 && !isQuiet) {
            isSignedOut(problem);
        }
        throw problem;
    }

    return {
        /** @type {(path: string, options?: CallOptions) => Promise<any>} */
        get: (path, options) => call("GET", path, options),
        /** @type {(path: string, body?: unknown, options?: CallOptions) => Promise<any>} */
        post: (path, body, options) => call("POST", path, { ...options, body }),
        /** @type {(path: string, body?: unknown, options?: CallOptions) => Promise<any>} */
        put: (path, body, options) => call("PUT", path, { ...options, body }),
        /** @type {(path: string, options?: CallOptions) => Promise<any>} */
        remove: (path, options) => call("DELETE", path, options),
        /**
         * Answers an interrupt. A caller that repeats a request after a lost connection passes the same
         * `idempotencyKey`.
         * @param {string} runId
         * @param {string} nodeId
         * @param {ResolveInterrupt["resumeValue"]} resumeValue
         * @param {{digest?: string, interruptId?: string, idempotencyKey?: string, signal?: AbortSignal}} [options]
         * @returns {Promise<InterruptResolved>}
         */
        decide: (runId, nodeId, resumeValue, { digest, interruptId, idempotencyKey = freshKey(), signal } = {}) =>
            call("POST", interruptPath(runId, nodeId), { body: { resumeValue, digest, interruptId }, idempotencyKey, signal }),
        /** @type {(path: string, query?: Object<string, unknown>) => string} */
        address: (path, query) => address(root, path, query),
        /** Returns the time of the server, estimated from its last response. Deadlines use the clock of the server. */
        now: () => now() + offset_ms,
    };
}

/**
 * Returns the API path of the open interrupt of a node. Answers are posted to it.
 * @param {string} runId
 * @param {string} nodeId
 */
export function interruptPath(runId, nodeId) {
    return `/v1/runs/${encodeURIComponent(runId)}/interrupts/${encodeURIComponent(nodeId)}`;
}

/** Returns a random idempotency key. */
export function freshKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Returns the address of a path with its query. Parameters without a value are left out.
 * @param {string} root
 * @param {string} path
 * @param {Object<string, unknown>} [query]
 */
export function address(root, path, query = {}) {
    const pairs = Object.entries(query).flatMap(([name, value]) => {
        const text = Array.isArray(value) ? value.join(",") : value;
        return text === undefined || text === null || text === "" ? [] : [[name, String(text)]];
    });
    const search = new URLSearchParams(pairs).toString();
    return root.replace(/\/$/, "") + path + (search ? `?${search}` : "");
}

/**
 * @param {typeof globalThis.fetch} fetch
 * @param {string} url
 * @param {RequestInit} request
 */
async function fetchResponse(fetch, url, request) {
    try {
        return await fetch(url, request);
    } catch (error) {
        if (/** @type {{name?: string}} */ (error)?.name === "AbortError") {
            throw error;
        }
        throw new Problem(0, "unreachable", texts.unreachable, undefined);
    }
}

/** @param {Response} response */
async function readJson(response) {
    try {
        return await response.json();
    } catch {
        throw new Problem(response.status, "not_json", texts.notReadable, undefined);
    }
}

/** @param {Response} response */
async function problemOf(response) {
    /** @type {Partial<ErrorBody>} */
    const body = await response.json().catch(() => ({}));
    const message = typeof body?.message === "string" ? body.message : texts.answered(response.status);
    const code = typeof body?.error === "string" ? body.error : `http_${response.status}`;
    return new Problem(response.status, code, message, body?.details);
}

/**
 * @param {string | null} date
 * @param {number} now
 */
function offsetOf(date, now) {
    const difference = Date.parse(date ?? "") - now;
    return Math.abs(difference) > CLOCK_TOLERANCE_MS ? difference : 0;
}
