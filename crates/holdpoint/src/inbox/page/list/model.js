//! The model of the list of pending interrupts. Calls the API; creates no elements.

import { compare, loadNewest, loadPage, newSince } from "./pages.js";
import { countsQuery, narrowing } from "./query.js";
import { isNew } from "../views/welcome.js";

/** The maximum selection: a list that the user can still read before confirming. */
export const SELECTION_MAX = 200;

/**
 * @param {{api: Object, filters: Object, trail?: (string | null)[], selection?: Map<string, Object>, changed: () => void, itemsAdded: (amount: number) => void}} options
 *   `changed` is called when the view must be drawn again, `itemsAdded` when there are more new items than before.
 */
export function createModel({ api, filters, trail = [null], selection = new Map(), changed, itemsAdded }) {
    const state = {
        filters, trail, wanted: trail, items: [], nextCursor: null, scanned: 0, gone: new Set(), added: 0, isMoreAdded: false, mark: null, counts: null,
        others: null, isFirstTime: false, isLoading: true, hasLoaded: false, problem: null, selection, isSelectionFull: false,
    };
    let turn = 0;

    /**
     * Loads the last page of the trail, by default the last requested trail. Earlier requests are dropped. The trail
     * and the items change together, so that the page number always belongs to the items.
     */
    async function load(trail = state.wanted) {
        turn += 1;
        const mine = turn;
        Object.assign(state, { wanted: trail, isLoading: true });
        changed();
        try {
            const [page, counts] = await Promise.all([loadPage(api, state.filters, trail.at(-1)), countsOf(api, state.filters)]);
            const mark = page.nextCursor === null ? null : (await loadNewest(api, state.filters, 1))[0] ?? null;
            const rest = page.items.length === 0 ? await emptyReason(api, state.filters, trail) : {};
            if (mine === turn) {
                Object.assign(state, page, { trail, counts, mark, gone: new Set(), added: 0, problem: null, others: null, isFirstTime: false }, rest);
            }
        } catch (problem) {
            if (mine === turn) {
                state.problem = problem;
            }
        }
        if (mine === turn) {
            Object.assign(state, { isLoading: false, hasLoaded: true });
            changed();
        }
    }

    /** Checks for changes without moving items: closed items stay in place, new items are only counted. */
    async function refresh(counts) {
        const mine = turn;
        if (counts) {
            state.counts = counts;
        }
        changed();
        if (state.isLoading) {
            return;
        }
        // After a failed load the shown items may belong to other filters and cannot be compared.
        if (state.problem) {
            await load();
            return;
        }
        try {
            const found = await changes(api, state);
            if (mine === turn) {
                applyChanges(found);
            }
        } catch {
            // The next change triggers another check.
        }
    }

    function applyChanges({ items, gone, added, isMore }) {
        const before = state.added;
        // In an empty list no item can move.
        if (state.items.length === 0 && added > 0) {
            load();
            return;
        }
        Object.assign(state, { items, gone: new Set([...state.gone, ...gone]), added, isMoreAdded: isMore });
        for (const id of gone) {
            state.selection.delete(id);
        }
        changed();
        if (added > before) {
            itemsAdded(added);
        }
    }

    return { state, load, refresh, ...paging(state, load), ...selecting(state, changed) };
}

function paging(state, load) {
    function filter(change) {
        state.filters = { ...state.filters, ...change };
        return load([null]);
    }

    /** Returns whether another page is loading. The cursor of the page after it is not known yet. */
    const isTurning = () => state.isLoading && state.wanted !== state.trail;

    /** @returns {Promise<boolean>} whether the requested page is shown */
    async function to(trail) {
        await load(trail);
        return state.trail === trail;
    }

    return {
        filter,
        isTurning,
        next: async () => state.nextCursor !== null && !isTurning() && to([...state.trail, state.nextCursor]),
        previous: async () => state.trail.length > 1 && !isTurning() && to(state.trail.slice(0, -1)),
        /** Returns the filter change that shows the new items: in a long list they may be on another page. */
        newPlace: () => (state.nextCursor === null && state.trail.length === 1 ? {} : { order: "newest" }),
    };
}

/** Returns whether an item can be selected. Only approvals can be decided in the list: the other kinds need a form. */
export function isSelectable(item, gone) {
    return item.kind === "approval" && !gone.has(item.interruptId);
}

function selecting(state, changed) {
    function select(item, isOn) {
        state.isSelectionFull = isOn && state.selection.size >= SELECTION_MAX && !state.selection.has(item.interruptId);
        if (!isOn) {
            state.selection.delete(item.interruptId);
        } else if (!state.isSelectionFull && isSelectable(item, state.gone)) {
            state.selection.set(item.interruptId, item);
        }
    }
    return {
        select(item, isOn) {
            select(item, isOn);
            changed();
        },
        selectPage(isOn) {
            state.items.forEach((item) => select(item, isOn));
            changed();
        },
        clearSelection() {
            state.selection.clear();
            state.isSelectionFull = false;
            changed();
        },
    };
}

function countsOf(api, filters) {
    return api.get("/v1/interrupts:counts", { query: countsQuery(filters) });
}

/** Returns why the list is empty: the counts of other assignees, and whether the server has no runs yet. */
async function emptyReason(api, filters, trail) {
    if (narrowing(filters) > 0 || trail.length > 1) {
        return {};
    }
    const others = filters.isMine ? await countsOf(api, { ...filters, isMine: false }) : null;
    const isFirstTime = (others?.total ?? 0) === 0 && (await isNew(api));
    return { others, isFirstTime };
}

async function changes(api, state) {
    const { filters, trail } = state;
    // A search may read many pages; it is not repeated for each change.
    const isSearch = filters.text.trim() !== "";
    const fresh = isSearch ? null : await loadPage(api, filters, trail.at(-1));
    const page = fresh ? compare(state.items, fresh, filters.order) : { items: state.items, gone: new Set(), added: [] };
    const isWhole = fresh !== null && (fresh.nextCursor === null || (filters.order === "newest" && trail.length === 1)) && state.nextCursor === null;
    if (isWhole) {
        return { items: page.items, gone: page.gone, added: page.added.length, isMore: fresh.nextCursor !== null };
    }
    const newest = await loadNewest(api, filters);
    const mark = state.mark ?? newestOf(state.items);
    const added = newSince(newest, mark, filters);
    return { items: page.items, gone: page.gone, added: added.length, isMore: added.length === newest.length && newest.length > 0 };
}

function newestOf(items) {
    return items.reduce((newest, item) => (newest === null || item.requestedAt > newest.requestedAt ? item : newest), null);
}
