//! The list of what waits: its state and what changes it. Knows the API, and nothing of elements.

import { compare, loadNewest, loadPage, newSince } from "./pages.js";
import { countsQuery, narrowing } from "./query.js";
import { isNew } from "../views/welcome.js";

/** So many can be decided together: a list that somebody can still read before they confirm it. */
export const SELECTION_MAX = 200;

/**
 * @param {{api: Object, filters: Object, trail?: (string | null)[], selection?: Map<string, Object>, changed: () => void, came: (amount: number) => void}} options
 *   `changed` is called when there is something else to draw, `came` when there are more new items than before.
 */
export function createModel({ api, filters, trail = [null], selection = new Map(), changed, came }) {
    const state = {
        filters, trail, wanted: trail, items: [], nextCursor: null, scanned: 0, gone: new Set(), added: 0, isMoreAdded: false, mark: null, counts: null,
        others: null, isFirstTime: false, isLoading: true, hasLoaded: false, problem: null, selection, isSelectionFull: false,
    };
    let turn = 0;

    /**
     * Loads the page that the trail ends in, by default the one that was wanted last. What was asked for before is forgotten.
     * The trail changes together with the items: the number of a page never stands with items of another.
     */
    async function load(trail = state.wanted) {
        turn += 1;
        const mine = turn;
        Object.assign(state, { wanted: trail, isLoading: true });
        changed();
        try {
            const [page, counts] = await Promise.all([loadPage(api, state.filters, trail.at(-1)), countsOf(api, state.filters)]);
            const mark = page.nextCursor === null ? null : (await loadNewest(api, state.filters, 1))[0] ?? null;
            const rest = page.items.length === 0 ? await emptiness(api, state.filters, trail) : {};
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

    /** Looks what has changed, and moves nothing: what is gone stays in its place, what is new is only counted. */
    async function look(counts) {
        const mine = turn;
        if (counts) {
            state.counts = counts;
        }
        changed();
        if (state.isLoading) {
            return;
        }
        // What is shown may be of other filters than those that could not be loaded: there is nothing to compare.
        if (state.problem) {
            await load();
            return;
        }
        try {
            const found = await changes(api, state);
            if (mine === turn) {
                take(found);
            }
        } catch {
            // The next time something is heard it is looked at again.
        }
    }

    function take({ items, gone, added, isMore }) {
        const before = state.added;
        // An empty list has nothing that could jump.
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
            came(added);
        }
    }

    return { state, load, look, ...paging(state, load), ...selecting(state, changed) };
}

function paging(state, load) {
    function filter(change) {
        state.filters = { ...state.filters, ...change };
        return load([null]);
    }

    /** Whether another page is on its way: where the one after it begins is not known yet. */
    const isTurning = () => state.isLoading && state.wanted !== state.trail;

    /** @returns {Promise<boolean>} whether that page is shown now */
    async function to(trail) {
        await load(trail);
        return state.trail === trail;
    }

    return {
        filter,
        isTurning,
        next: async () => state.nextCursor !== null && !isTurning() && to([...state.trail, state.nextCursor]),
        previous: async () => state.trail.length > 1 && !isTurning() && to(state.trail.slice(0, -1)),
        /** Where what is new can be seen: in a long list that is not where it stands in its order. */
        newPlace: () => (state.nextCursor === null && state.trail.length === 1 ? {} : { order: "newest" }),
    };
}

/** Only approvals can be decided without being opened: the rest needs an answer that somebody has to write. */
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

/** Why nothing is there: nothing for the caller, nothing at all, or nothing yet. */
async function emptiness(api, filters, trail) {
    if (narrowing(filters) > 0 || trail.length > 1) {
        return {};
    }
    const others = filters.isMine ? await countsOf(api, { ...filters, isMine: false }) : null;
    const isFirstTime = (others?.total ?? 0) === 0 && (await isNew(api));
    return { others, isFirstTime };
}

async function changes(api, state) {
    const { filters, trail } = state;
    // A search may span many pages; it is not done again each time something comes.
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
