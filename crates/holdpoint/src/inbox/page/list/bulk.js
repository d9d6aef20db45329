//! Decides many, one by one. Each has its own result, and none hides another: what is done is done, what somebody else
//! answered says who, what failed says why and can be tried again.

/** So many at the same time. */
export const TOGETHER = 4;

const DONE = new Set(["done", "voted", "repeated"]);
const OVER = new Set(["answered", "timedOut", "cancelled"]);
const LEFT = new Set(["waiting", "sending"]);
const AGAIN = new Set(["failed", "unreachable", "stopped"]);
const OUTCOMES = { resolved: "done", voted: "voted", repeated: "repeated" };
const REFUSALS = { interrupt_gone: "cancelled", interrupt_cancelled: "cancelled", interrupt_expired: "timedOut", payload_mismatch: "changed", forbidden: "forbidden", unreachable: "unreachable" };

/**
 * @typedef {{item: Object, state: string, key: string, by?: string, action?: string, why?: string}} Result
 *
 * @param {{items: Object[], action: "accept" | "reject", feedback?: string, changed: () => void, freshKey: () => string,
 *   decide: (item: Object, value: Object, key: string) => Promise<Object>, lookUp: (item: Object) => Promise<Object | undefined>}} options
 *   `lookUp` finds what became of an item that was answered by somebody else.
 */
export function createBulk({ items, action, decide, lookUp, freshKey, changed }) {
    /** @type {Result[]} */
    const results = items.map((item) => ({ item, state: "waiting", key: freshKey() }));
    let isStopped = false;
    let value = { action };

    async function run(feedback) {
        value = feedback ? { action, feedback } : { action };
        isStopped = false;
        const queue = results.filter(({ state }) => state === "waiting");
        const lane = async () => {
            while (queue.length > 0 && !isStopped) {
                await send(queue.shift());
            }
        };
        await Promise.all(Array.from({ length: TOGETHER }, lane));
        queue.forEach((result) => Object.assign(result, { state: "stopped" }));
        changed();
    }

    async function send(result) {
        result.state = "sending";
        changed();
        try {
            const answer = await decide(result.item, value, result.key);
            result.state = OUTCOMES[answer.outcome] ?? "done";
        } catch (problem) {
            await refused(result, problem);
        }
        changed();
    }

    async function refused(result, problem) {
        Object.assign(result, { state: REFUSALS[problem.code] ?? "failed", why: problem.message });
        if (problem.code === "interrupt_already_resolved") {
            Object.assign(result, await whatBecame(result.item));
        }
    }

    async function whatBecame(item) {
        const found = await lookUp(item).catch(() => undefined);
        if (found?.status === "timed-out") {
            return { state: "timedOut" };
        }
        if (found?.status === "cancelled") {
            return { state: "cancelled" };
        }
        return { state: "answered", by: found?.decision?.by, action: found?.decision?.action };
    }

    /** Sends again what failed. What may have arrived keeps its key, so that it cannot count twice. */
    function retry(feedback) {
        for (const result of results.filter(({ state }) => AGAIN.has(state))) {
            const key = result.state === "failed" ? freshKey() : result.key;
            Object.assign(result, { state: "waiting", key, why: undefined });
        }
        return run(feedback);
    }

    return { results, run, retry, stop: () => { isStopped = true; } };
}

export function summaryOf(results) {
    const among = (states) => results.filter(({ state }) => states.has(state)).length;
    const [done, answered, left] = [among(DONE), among(OVER), among(LEFT)];
    return { done, answered, left, failed: results.length - done - answered - left, again: among(AGAIN) };
}

/** What a result says, and whether it is good, over or bad. */
export function sayResult({ state, by, action, why }, decision, texts) {
    const level = DONE.has(state) ? "good" : OVER.has(state) ? "over" : LEFT.has(state) ? "left" : "bad";
    if (state === "done") {
        return { level, text: texts.done[decision] };
    }
    if (state === "answered") {
        return { level, text: by ? (action ? texts.answeredAs(by, action) : texts.answeredBy(by)) : texts.answered };
    }
    return { level, text: state === "failed" ? texts.failed(why) : texts[state] };
}
