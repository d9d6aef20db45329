//! Reads the state of a run at an event from the snapshots in the stream of the server.

/** @typedef {import("../../api-types.js").RunSnapshot} RunSnapshot */

/** The wait for the next snapshot. Some events have no snapshot, and the stream of an active run stays open. */
const QUIET_MS = 1_500;
const FIRST_MS = 8_000;

/**
 * @param {string} url of `…/events?streamMode=values`
 * @param {number} sequence
 * @param {{EventSource: typeof EventSource, setTimeout: Function, clearTimeout: Function}} [world]
 * @returns {{result: Promise<{at: RunSnapshot | null, atSequence: number, before: RunSnapshot | null}>, close: () => void}} `at` is the last
 *   snapshot at or before the event, `before` the one before that
 */
export function snapshotAt(url, sequence, world = globalThis) {
    const source = new world.EventSource(url);
    const found = { at: null, atSequence: -1, before: null };
    let timer;
    const result = new Promise((resolve) => {
        const end = () => {
            world.clearTimeout(timer);
            source.close();
            resolve(found);
        };
        const wait = (ms) => {
            world.clearTimeout(timer);
            timer = world.setTimeout(end, ms);
        };
        wait(FIRST_MS);
        source.addEventListener("state.snapshot", (event) => {
            const id = Number(event.lastEventId);
            wait(QUIET_MS);
            const snapshot = id <= sequence ? parsed(event.data) : null;
            if (snapshot) {
                Object.assign(found, { before: found.at, at: snapshot, atSequence: id });
            }
            if (id >= sequence) {
                end();
            }
        });
        // The stream of a finished run ends, which the browser reports as an error.
        source.addEventListener("error", end);
    });
    const close = () => {
        world.clearTimeout(timer);
        source.close();
    };
    return { result, close };
}

/** @returns {RunSnapshot | null} */
function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}
