//! Decides several items. Each item has its own request and its own result, and failed items can be retried.

/** The number of concurrent requests. */
export const CONCURRENCY = 4;

const DONE = new Set(["done", "voted", "repeated"]);
const OVER = new Set(["answered", "timedOut", "cancelled"]);
const LEFT = new Set(["waiting", "sending"]);
const RETRYABLE = new Set(["failed", "unreachable", "stopped"]);
const OUTCOMES = { resolved: "done", voted: "voted", repeated: "repeated" };
const REFUSALS = { interrupt_gone: "cancelled", interrupt_cancelled: "cancelled", interrupt_expired: "timedOut", payload_mismatch: "changed", forbidden: "forbidden", unreachable: "unreachable" };

/**
 * @typedef {{item: Object, state: string, key: string, by?: string, action?: string, why?: string}} Result
 *
 * @param {{items: Object[], action: "accept" | "reject", feedback?: string, changed: () => void, freshKey: () => string,
 *   decide: (item: Object, value: Object, key: string) => Promise<Object>, lookUp: (item: Object) => Promise<Object |
 *   undefined>}} options `lookUp` loads an item that another principal has answered.
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
        await Promise.all(Array.from({ length: CONCURRENCY }, lane));
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
            Object.assign(result, await findOutcome(result.item));
        }
    }

    async function findOutcome(item) {
        const found = await lookUp(item).catch(() => undefined);
        if (found?.status === "timed-out") {
            return { state: "timedOut" };
        }
        if (found?.status === "cancelled") {
            return { state: "cancelled" };
        }
        return { state: "answered", by: found?.decision?.by, action: found?.decision?.action };
    }

    /** Retries the failed items. Items that may have arrived keep their idempotency key, so that they count once. */
    function retry(feedback) {
        for (const result of results.filter(({ state }) => RETRYABLE.has(state))) {
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
    return { done, answered, left, failed: results.length - done - answered - left, retryable: among(RETRYABLE) };
}

/** Returns the text and the level of a result. */
export function describeResult({ state, by, action, why }, decision, texts) {
    const level = DONE.has(state) ? "good" : OVER.has(state) ? "over" : LEFT.has(state) ? "left" : "bad";
    if (state === "done") {
        return { level, text: texts.done[decision] };
    }
    if (state === "answered") {
        return { level, text: by ? (action ? texts.answeredAs(by, action) : texts.answeredBy(by)) : texts.answered };
    }
    return { level, text: state === "failed" ? texts.failed(why) : texts[state] };
}
