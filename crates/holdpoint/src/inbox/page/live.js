//! Hears from the server when what waits has changed. A stream while there is one, a question now and then while there is
//! none: nobody has to reload.

/** @typedef {import("../api-types.js").PendingCounts} PendingCounts */

export const POLL_MS = 15_000;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 60_000;
/** A stream that lasted so long was a good one: what comes after it is a new trouble. */
const GOOD_MS = 10_000;

/** How long to wait before the next attempt: twice as long each time, and not all pages at the same moment. */
export function waitBefore(attempt, random = Math.random) {
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
    return Math.round(longest / 2 + (longest / 2) * random());
}

/**
 * @param {{url: string, poll: () => Promise<PendingCounts>, heard: (counts: PendingCounts) => void, changed: (how: "live" | "asking" | "away") => void}} what
 *   `heard` gets what `GET /v1/interrupts:counts` would say, at once and whenever it may have changed. `changed` is told how it is
 *   heard: live, by asking now and then, or not at all because the server cannot be reached.
 * @param {Object} [world] What the browser gives: EventSource, setTimeout, clearTimeout, now, random.
 * @returns {{close: () => void}}
 */
export function watch({ url, poll, heard, changed }, world = globalThis) {
    const { EventSource, random = Math.random, now = () => Date.now() } = world;
    const clock = timersOf(world);
    const polling = pollingOf(poll, heard, changed, clock.after);
    let source = null;
    let attempt = 0;
    let opened_at = null;
    let isClosed = false;

    function open() {
        source = new EventSource(url);
        source.addEventListener("open", () => {
            opened_at = now();
            polling.stop();
            changed("live");
        });
        source.addEventListener("counts", (event) => told(event.data));
        source.addEventListener("error", broken);
    }

    function told(data) {
        /** @type {PendingCounts} */
        let counts;
        try {
            counts = JSON.parse(data);
        } catch {
            return;
        }
        heard(counts);
    }

    function broken() {
        if (isClosed) {
            return;
        }
        // The browser's own way to come back asks every few seconds, for ever, and gives up at a refusal.
        source.close();
        const wasGood = opened_at !== null && now() - opened_at >= GOOD_MS;
        attempt = wasGood ? 0 : attempt + 1;
        opened_at = null;
        // A stream ends now and then and is there again at once; that is nothing to tell anybody.
        if (attempt > 1) {
            polling.start();
        }
        clock.after(waitBefore(attempt, random), open);
    }

    open();
    return {
        close() {
            isClosed = true;
            source.close();
            polling.stop();
            clock.clear();
        },
    };
}

/** Asks at once and then again and again, until it is stopped. */
function pollingOf(poll, heard, changed, after) {
    /** Which round of asking this is: what was asked in an earlier one is not heard. */
    let round = 0;
    let isOn = false;

    async function ask(mine) {
        const isMine = () => isOn && mine === round;
        if (!isMine()) {
            return;
        }
        // Asked again soon; who is signed out is told by the call itself.
        const { counts, problem } = await poll().then((found) => ({ counts: found }), (reason) => ({ problem: reason }));
        if (isMine()) {
            changed(isAway(problem) ? "away" : "asking");
            if (counts) {
                heard(counts);
            }
            after(POLL_MS, () => ask(mine));
        }
    }

    return {
        start() {
            if (!isOn) {
                isOn = true;
                round += 1;
                ask(round);
            }
        },
        stop() {
            isOn = false;
        },
    };
}

/** No answer, or only that of a proxy before a server that is not there. */
function isAway(problem) {
    return problem !== undefined && (!problem.status || [502, 503, 504].includes(problem.status));
}

function timersOf(world) {
    const timers = new Set();
    return {
        after(ms, act) {
            const timer = world.setTimeout(() => {
                timers.delete(timer);
                act();
            }, ms);
            timers.add(timer);
        },
        clear() {
            timers.forEach((timer) => world.clearTimeout(timer));
            timers.clear();
        },
    };
}
