//! Pages of the list: how one is loaded, and what of it has changed since. However much waits, one page is in memory.

import { matches, PAGE, pageQuery } from "./query.js";

/** A search looks through this many pages at once, then asks whether to go on. */
const LOOKS_MAX = 10;

/** @typedef {import("../../api-types.js").PendingInterrupts} PendingInterrupts */

/**
 * @returns {Promise<{items: PendingInterrupts["interrupts"], nextCursor: string | null, scanned: number}>} At most twice as many items as a page
 *   has: a page of the server may be short and yet have a next one.
 */
export async function loadPage(api, filters, cursor) {
    const items = [];
    let next = cursor;
    let scanned = 0;
    for (let look = 0; look < LOOKS_MAX; look += 1) {
        /** @type {PendingInterrupts} */
        const answer = await api.get("/v1/interrupts", { query: { ...pageQuery(filters), limit: PAGE, cursor: next } });
        scanned += answer.interrupts.length;
        items.push(...answer.interrupts.filter((item) => matches(item, filters.text)));
        next = answer.nextCursor ?? null;
        if (next === null || items.length >= PAGE) {
            break;
        }
    }
    return { items, nextCursor: next, scanned };
}

/** The newest ones, whatever the order of the list is. */
export async function loadNewest(api, filters, limit = PAGE) {
    /** @type {PendingInterrupts} */
    const answer = await api.get("/v1/interrupts", { query: { ...pageQuery(filters, "newest"), limit } });
    return answer.interrupts;
}

/**
 * What became of the items of a page, judged by the same page asked for again.
 * @returns {{items: Object[], gone: Set<string>, added: Object[]}} `items` are those that were there, in their places, as
 *   they are now; `gone` those that wait no longer; `added` those that were not there.
 */
export function compare(shown, fresh, order) {
    const now = new Map(fresh.items.map((item) => [item.interruptId, item]));
    const known = new Set(shown.map((item) => item.interruptId));
    const last = fresh.items.at(-1);
    const gone = new Set();
    for (const item of shown) {
        // One that was pushed beyond the end of the page by others may well be waiting.
        const isWithin = fresh.nextCursor === null || (last !== undefined && comesBefore(item, last, order));
        if (!now.has(item.interruptId) && isWithin) {
            gone.add(item.interruptId);
        }
    }
    const added = fresh.items.filter((item) => !known.has(item.interruptId));
    return { items: shown.map((item) => now.get(item.interruptId) ?? item), gone, added };
}

/** Those that came after the newest that was known, and that this list would show. */
export function newSince(newest, mark, filters) {
    return newest.filter((item) =>
        (mark === null || item.requestedAt > mark.requestedAt) &&
        item.interruptId !== mark?.interruptId &&
        matches(item, filters.text) &&
        (filters.order !== "deadline" || item.expiresAt !== undefined));
}

function comesBefore(item, other, order) {
    if (order === "deadline") {
        return item.expiresAt < other.expiresAt;
    }
    return order === "newest" ? item.requestedAt > other.requestedAt : item.requestedAt < other.requestedAt;
}
