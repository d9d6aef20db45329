//! Calls of the public API from this page: with the cookie of the session, and with what shows that no other page sends
//! them. Knows nothing of what is shown.

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

/** What the server said no with, or that it could not be reached: then `status` is 0 and `code` is `unreachable`. */
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
 * Whether the words of a problem are the server's; those for silence and for what cannot be read are this page's own.
 * @param {{code: string}} problem
 */
export function isServersWord({ code }) {
    return code !== "unreachable" && code !== "not_json" && !/^http_/.test(code);
}

/** A clock that differs by less is left alone: the header that tells is cut to seconds. */
const CLOCK_TOLERANCE_MS = 5000;

/**
 * @param {{root: string, fetch: typeof globalThis.fetch, isSignedOut?: (problem: Problem) => void, now?: () => number}} options
 *   `root` is the address that `/v1` is below; `isSignedOut` is told about every 401.
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
        const response = await reach(fetch, address(root, path, query), request);
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
         * Answers a pause. A caller that sends the same again after a lost connection gives the same `idempotencyKey`.
         * @param {string} runId
         * @param {string} nodeId
         * @param {ResolveInterrupt["resumeValue"]} resumeValue
         * @param {{digest?: string, interruptId?: string, idempotencyKey?: string, signal?: AbortSignal}} [options]
         * @returns {Promise<InterruptResolved>}
         */
        decide: (runId, nodeId, resumeValue, { digest, interruptId, idempotencyKey = freshKey(), signal } = {}) =>
            call("POST", pausePath(runId, nodeId), { body: { resumeValue, digest, interruptId }, idempotencyKey, signal }),
        /** @type {(path: string, query?: Object<string, unknown>) => string} */
        address: (path, query) => address(root, path, query),
        /** The server's time, as far as it is known: deadlines are the server's. */
        now: () => now() + offset_ms,
    };
}

/**
 * Where answers to a pause go.
 * @param {string} runId
 * @param {string} nodeId
 */
export function pausePath(runId, nodeId) {
    return `/v1/runs/${encodeURIComponent(runId)}/interrupts/${encodeURIComponent(nodeId)}`;
}

/** A key that nobody else has. */
export function freshKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The address of a path, with the parameters of the query that have a value.
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
async function reach(fetch, url, request) {
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
