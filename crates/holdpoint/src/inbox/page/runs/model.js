//! The list of runs: which of them, page by page, newest first. Knows the API, and nothing of elements.

export const PAGE = 50;

/** What people tell apart, and which states of a run that is. A run that somebody paused waits for somebody, too. */
export const GROUPS = {
    all: [undefined],
    waiting: ["waiting-approval", "waiting-input", "waiting-external", "paused"],
    running: ["running", "pending"],
    completed: ["completed"],
    failed: ["failed"],
    cancelled: ["cancelled"],
};

/** The group that an address asks for. */
export function groupFrom({ status }) {
    return typeof status === "string" && Object.hasOwn(GROUPS, status) ? status : "all";
}

export function searchOf(group) {
    return group === "all" ? "" : `?status=${group}`;
}

/**
 * Where a page begins: behind a run, in each of the states that are listed together. The API lists one state at a time, and
 * a cursor may begin before that run: what did not fit on the page before is fetched again, so that it says how it stands now.
 * @typedef {{group: string, after: string | null, sources: {status?: string, cursor: string | null}[]}} Place
 */

/** @returns {Place} */
export function beginningOf(group) {
    return { group, after: null, sources: GROUPS[group].map((status) => ({ status, cursor: null })) };
}

/** @returns {Promise<{items: Object[], next: Place | null}>} one page of runs, and where the next one begins */
export async function loadPage(api, place, limit = PAGE) {
    const isBehind = (run) => place.after === null || run.runId < place.after;
    const fetched = await Promise.all(place.sources.map((source) => fetchBehind(api, source, isBehind, limit)));
    const all = fetched.flatMap(({ batches }) => batches.flatMap(({ runs }) => runs)).filter(isBehind).sort(newestFirst);
    // One that went from a state to another between two answers is in both.
    const items = all.filter(({ runId }, at) => runId !== all[at - 1]?.runId).slice(0, limit);
    const after = items.at(-1)?.runId ?? place.after;
    const isOver = fetched.every(({ end }) => end === null) && all.every(({ runId }) => runId >= after);
    const sources = fetched.map(({ status, batches, end }) => ({ status, cursor: cursorBehind(batches, end, after) }));
    return { items, next: isOver ? null : { ...place, after, sources } };
}

/** What a page needs of one state at most. `end` is where what was not fetched begins. */
async function fetchBehind(api, { status, cursor }, isBehind, limit) {
    const batches = [];
    let [end, amount] = [cursor, 0];
    do {
        /** @type {import("../../api-types.js").Runs} */
        const answer = await api.get("/v1/runs", { query: { status, limit, cursor: end } });
        batches.push({ cursor: end, runs: answer.runs });
        amount += answer.runs.filter(isBehind).length;
        end = answer.nextCursor ?? null;
    } while (end !== null && amount < limit);
    return { status, batches, end };
}

/** The last cursor that leaves out nothing behind `after`, not even a run that comes into this state only later. */
function cursorBehind(batches, end, after) {
    const batch = batches.find(({ runs }) => runs.at(-1)?.runId < after);
    return batch ? batch.cursor : end ?? batches.at(-1).cursor;
}

/** The ids of runs rise with the time, and the API lists by them. */
function newestFirst(one, other) {
    return one.runId < other.runId ? 1 : one.runId > other.runId ? -1 : 0;
}

/** @param {{api: Object, group: string, trail?: Place[], changed: () => void}} options */
export function createModel({ api, group, trail = [beginningOf(group)], changed }) {
    const state = { group, trail, wanted: trail, items: [], next: null, isLoading: true, hasLoaded: false, isOld: false, problem: null };
    let turn = 0;

    /**
     * Loads the page that the trail ends in, by default the one that was wanted last. The trail changes together with the items.
     * @returns {Promise<boolean>} whether that page is shown now
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

    /** Looks again: runs that are shown say how they stand now and keep their places; that others came is only told. */
    async function look() {
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

    /** While what is shown is still of another group there is nothing to go on from: the group comes first. */
    const turnTo = async (trail) => !state.isLoading && load(trail.at(-1).group === state.group ? trail : state.wanted);

    return {
        state,
        load,
        look,
        choose,
        next: async () => state.next !== null && turnTo([...state.trail, state.next]),
        previous: async () => state.trail.length > 1 && turnTo(state.trail.slice(0, -1)),
    };
}
