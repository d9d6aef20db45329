//! The first screen of a new installation: an introduction, and a button that starts a sample run.

import { h } from "../dom.js";
import { interruptPath } from "../api.js";

const SAMPLE = "sample-approval";
/** The number of attempts to find the open interrupt of the sample. After that, the list shows it. */
const ATTEMPTS_MAX = 20;
const ATTEMPT_MS = 250;

/** Returns whether there are no runs that the caller may read. */
export async function isNew(api) {
    try {
        return (await api.get("/v1/runs", { query: { limit: 1 } })).runs.length === 0;
    } catch {
        return false;
    }
}

/**
 * @param {{api: Object, texts: Object, redraw: () => void, navigate: (path: string) => void, paths: Object, started: () => void}} context
 *   `started` is called if the run has started, but its interrupt was not found.
 */
export function welcome({ api, texts, redraw, navigate, paths, started }) {
    const { shell } = texts;
    const state = { isStarting: false, problem: null };

    async function start() {
        if (state.isStarting) {
            return;
        }
        Object.assign(state, { isStarting: true, problem: null });
        redraw();
        try {
            const { runId, nodeId } = await startSample(api, shell.sampleHold);
            if (nodeId) {
                navigate(paths.interrupt(runId, nodeId));
            } else {
                started();
            }
        } catch (problem) {
            Object.assign(state, { isStarting: false, problem: explain(problem, shell) });
            redraw();
        }
    }

    return () => h("section", { class: "welcome card", key: "welcome" },
        h("h1", {}, shell.welcomeTitle),
        h("p", { class: "lead" }, shell.welcomeLead),
        h("p", {}, shell.welcomeNow),
        h("p", {}, h("button", { type: "button", class: "button primary large", "aria-disabled": state.isStarting ? "true" : undefined, on: { click: start } },
            state.isStarting ? shell.starting : shell.startSample)),
        state.problem && h("p", { class: "notice notice-bad", role: "alert" }, state.problem),
        h("h2", {}, shell.afterwards),
        h("ol", { class: "steps" }, shell.steps.map((step) => h("li", {}, step))),
        h("p", { class: "muted" }, shell.orTerminal),
        h("pre", { class: "command" }, h("code", {}, shell.askCommand)),
        program(shell));
}

/** Describes the program of the commands on this page. */
export function program({ program: [name, words] }) {
    return h("p", { class: "hint" }, h("code", {}, name), words);
}

/** Starts the sample workflow, or creates a hold if the server does not have it. */
export async function startSample(api, hold, wait = (ms) => new Promise((done) => setTimeout(done, ms))) {
    const run = await api.post("/v1/runs", { workflowId: SAMPLE }).catch((problem) => {
        if (!isMissing(problem)) {
            throw problem;
        }
        return api.post("/v1/holds", hold);
    });
    const runId = run.runId ?? run.holdId;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
        const nodeId = await openNode(api, runId);
        if (nodeId) {
            return { runId, nodeId };
        }
        await wait(ATTEMPT_MS);
    }
    return { runId, nodeId: null };
}

async function openNode(api, runId) {
    const path = interruptPath(runId, "").replace(/\/$/, "");
    const { interrupts } = await api.get(path).catch(() => ({ interrupts: [] }));
    return interrupts.find(({ status }) => status === "open")?.nodeId ?? null;
}

function isMissing(problem) {
    return problem.status === 404 || (problem.status === 400 && problem.details?.field === "workflowId");
}

function explain(problem, shell) {
    if (problem.status === 403) {
        return shell.sampleForbidden;
    }
    return problem.status === 404 ? shell.sampleMissing : shell.sampleFailed(problem.message);
}
