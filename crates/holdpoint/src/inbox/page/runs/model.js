//! The model of the list of runs: pages of a group, newest first. Calls the API; creates no elements.

export const PAGE = 50;

/** The groups of the filter with their run statuses. A paused run waits for an operator, so it is in `waiting`. */
export const GROUPS = {
    all: [undefined],
    waiting: ["waiting-approval", "waiting-input", "waiting-external", "paused"],
    running: ["running", "pending"],
    completed: ["completed"],
    failed: ["failed"],
    cancelled: ["cancelled"],
};

/** Returns the group of an address. */
export function groupFrom({ status }) {
    return typeof status === "string" && Object.hasOwn(GROUPS, status) ? status : "all";
}

export function searchOf(group) {
    return group === "all" ? "" : `?status=${group}`;
}

/**
 * The start of a page: after a run, with a cursor for each status of the group. The API lists one status at a time. A
 * cursor may start before that run: runs that did not fit on the previous page are loaded again, with their current
 * status.
 * @typedef {{group: string, after: string | null, sources: {status?: string, cursor: string | null}[]}} Place
 */

/** @returns {Place} */
export function beginningOf(group) {
    return { group, after: null, sources: GROUPS[group].map((status) => ({ status, cursor: null })) };
}

/** @returns {Promise<{items: Object[], next: Place | null}>} one page of runs, and the start of the next one */
export async function loadPage(api, place, limit = PAGE) {
    const isBehind = (run) => place.after === null || run.runId < place.after;
    const fetched = await Promise.all(place.sources.map((source) => fetchBehind(api, source, isBehind, limit)));
    const all = fetched.flatMap(({ batches }) => batches.flatMap(({ runs }) => runs)).filter(isBehind).sort(newestFirst);
    // A run that changed its status between two responses is in both.
    const items = all.filter(({ runId }, at) => runId !== all[at - 1]?.runId).slice(0, limit);
    const after = items.at(-1)?.runId ?? place.after;
    const isOver = fetched.every(({ end }) => end === null) && all.every(({ runId }) => runId >= after);
    const sources = fetched.map(({ status, batches, end }) => ({ status, cursor: cursorBehind(batches, end, after) }));
    return { items, next: isOver ? null : { ...place, after, sources } };
}

/** Loads the runs of one status that a page can need. `end` is the cursor after them. */
async function fetchBehind(api, { status, cursor }, isBehind, limit) {
    const batches = [];
    let [end, amount] = [cursor, 0];
    do {
        /** @type {import("../../api-types.js").RunList} */
        const answer = await api.get("/v1/runs", { query: { status, limit, cursor: end } });
        batches.push({ cursor: end, runs: answer.runs });
        amount += answer.runs.filter(isBehind).length;
        end = answer.nextCursor ?? null;
    } while (end !== null && amount < limit);
    return { status, batches, end };
}

/** Returns the last cursor that includes all runs after `after`, also runs that get this status later. */
function cursorBehind(batches, end, after) {
    const batch = batches.find(({ runs }) => runs.at(-1)?.runId < after);
    return batch ? batch.cursor : end ?? batches.at(-1).cursor;
}

/** Sorts runs by id, newest first. Run ids are ordered by time, and the API lists by id. */
function newestFirst(one, other) {
    return one.runId < other.runId ? 1 : one.runId > other.runId ? -1 : 0;
}

/** @param {{api: Object, group: string, trail?: Place[], changed: () => void}} options */
export function createModel({ api, group, trail = [beginningOf(group)], changed }) {
    const state = { group, trail, wanted: trail, items: [], next: null, isLoading: true, hasLoaded: false, isOld: false, problem: null };
    let turn = 0;

    /**
     * Loads the last page of the trail, by default the last requested trail. The trail and the items change together.
     * @returns {Promise<boolean>} whether the requested page is shown
     */
    async function load(wanted = state.wanted) {
        turn += 1;
        const mine = turn;
        Object.assign(state, { wanted, isLoading: true });
        changed();
        const found = await loadPage(api, wanted.at(-1)).catch((problem) => ({ problem }));
        if (mine !== turn) {
            return false;
        }
        const isHere = found.problem === undefined;
        Object.assign(state, isHere ? { ...found, trail: wanted, problem: null, isOld: false } : found);
        Object.assign(state, { isLoading: false, hasLoaded: true });
        changed();
        return isHere;
    }

    /** Updates the shown runs in place. If the page has other runs now, only sets `isOld`. */
    async function refresh() {
        if (state.problem) {
            await load();
            return;
        }
        const mine = turn;
        const fresh = state.isLoading ? null : await loadPage(api, state.trail.at(-1)).catch(() => null);
        if (fresh === null || mine !== turn) {
            return;
        }
        const now = new Map(fresh.items.map((run) => [run.runId, run]));
        const isSame = now.size === state.items.length && state.items.every(({ runId }) => now.has(runId));
        Object.assign(state, { items: state.items.map((run) => now.get(run.runId) ?? run), isOld: !isSame });
        changed();
    }

    function choose(wanted) {
        state.group = wanted;
        return load([beginningOf(wanted)]);
    }

    /** Turns the page. If the shown runs belong to another group, loads the chosen group instead. */
    const turnTo = async (trail) => !state.isLoading && load(trail.at(-1).group === state.group ? trail : state.wanted);

    return {
        state,
        load,
        refresh,
        choose,
        next: async () => state.next !== null && turnTo([...state.trail, state.next]),
        previous: async () => state.trail.length > 1 && turnTo(state.trail.slice(0, -1)),
    };
}
