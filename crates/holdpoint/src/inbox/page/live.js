//! Receives changes of the pending interrupts: from a stream if there is one, otherwise by polling.

/** @typedef {import("../api-types.js").PendingCounts} PendingCounts */

export const POLL_MS = 15_000;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 60_000;
/** A stream that was open this long resets the count of failed attempts. */
const GOOD_MS = 10_000;

/** Returns the wait before the next attempt: exponential backoff with jitter. */
export function waitBefore(attempt, random = Math.random) {
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
    return Math.round(longest / 2 + (longest / 2) * random());
}

/**
 * @param {{url: string, poll: () => Promise<PendingCounts>, received: (counts: PendingCounts) => void, changed: (how: "live" | "polling" | "away") => void}} what
 *   `received` gets the counts of `GET /v1/interrupts:counts`, first immediately and then after each possible change.
 *   `changed` gets the mode: a live stream, polling, or none because the server cannot be reached.
 * @param {Object} [world] EventSource, setTimeout, clearTimeout, now and random, by default those of the browser
 * @returns {{close: () => void}}
 */
export function watch({ url, poll, received, changed }, world = globalThis) {
    const { EventSource, random = Math.random, now = () => Date.now() } = world;
    const clock = timersOf(world);
    const polling = pollingOf(poll, received, changed, clock.after);
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
        source.addEventListener("counts", (event) => receive(event.data));
        source.addEventListener("error", reconnect);
    }

    function receive(data) {
        /** @type {PendingCounts} */
        let counts;
        try {
            counts = JSON.parse(data);
        } catch {
            return;
        }
        received(counts);
    }

    function reconnect() {
        if (isClosed) {
            return;
        }
        // The browser would reconnect every few seconds without an end, and would stop at an error response.
        source.close();
        const wasGood = opened_at !== null && now() - opened_at >= GOOD_MS;
        attempt = wasGood ? 0 : attempt + 1;
        opened_at = null;
        // Streams end from time to time and reconnect immediately: the first failed attempt does not start polling.
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

/** Polls immediately and then at an interval, until it is stopped. */
function pollingOf(poll, received, changed, after) {
    /** Counts the starts: the results of polls of an earlier start are dropped. */
    let round = 0;
    let isOn = false;

    async function ask(mine) {
        const isMine = () => isOn && mine === round;
        if (!isMine()) {
            return;
        }
        // A failed poll is repeated. The call itself reports a 401.
        const { counts, problem } = await poll().then((found) => ({ counts: found }), (reason) => ({ problem: reason }));
        if (isMine()) {
            changed(isAway(problem) ? "away" : "polling");
            if (counts) {
                received(counts);
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

/** Returns whether the server is unreachable: no response, or a gateway error of a proxy. */
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
