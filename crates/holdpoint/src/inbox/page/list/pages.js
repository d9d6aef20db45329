//! Loads pages of the list and finds their changes. Only one page is kept in memory.

import { matches, PAGE, pageQuery } from "./query.js";

/** A search reads this many pages, then the user decides whether to continue. */
const PAGES_MAX = 10;

/** @typedef {import("../../api-types.js").PendingInterrupts} PendingInterrupts */

/**
 * @returns {Promise<{items: PendingInterrupts["interrupts"], nextCursor: string | null, scanned: number}>} at most twice the page
 *   size, because a page of the server can be short and still have a next page
 */
export async function loadPage(api, filters, cursor) {
    const items = [];
    let next = cursor;
    let scanned = 0;
    for (let page = 0; page < PAGES_MAX; page += 1) {
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

/** Loads the newest items, independent of the order of the list. */
export async function loadNewest(api, filters, limit = PAGE) {
    /** @type {PendingInterrupts} */
    const answer = await api.get("/v1/interrupts", { query: { ...pageQuery(filters, "newest"), limit } });
    return answer.interrupts;
}

/**
 * Compares the shown items with the same page loaded again.
 * @returns {{items: Object[], gone: Set<string>, added: Object[]}} `items` are the shown items with their current data;
 *   `gone` are no longer pending; `added` are new on the page
 */
export function compare(shown, fresh, order) {
    const now = new Map(fresh.items.map((item) => [item.interruptId, item]));
    const known = new Set(shown.map((item) => item.interruptId));
    const last = fresh.items.at(-1);
    const gone = new Set();
    for (const item of shown) {
        // An item that new items pushed to the next page is still pending.
        const isWithin = fresh.nextCursor === null || (last !== undefined && comesBefore(item, last, order));
        if (!now.has(item.interruptId) && isWithin) {
            gone.add(item.interruptId);
        }
    }
    const added = fresh.items.filter((item) => !known.has(item.interruptId));
    return { items: shown.map((item) => now.get(item.interruptId) ?? item), gone, added };
}

/** Returns the items that are newer than `mark` and match the filters. */
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
