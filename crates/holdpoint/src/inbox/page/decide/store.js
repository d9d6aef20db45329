//! Loads interrupts, runs and workflows from the public API.

import { run as texts } from "../texts/run.js";
import { fromRun } from "./model.js";

const PAGE = 200;
/** A run has at most 10,000 interrupts. */
const PAGES_MAX = 50;

/**
 * The documents of the API.
 * @typedef {import("../../api-types.js").InterruptHistory} InterruptHistory
 * @typedef {import("../../api-types.js").PendingInterrupts} PendingInterrupts
 * @typedef {import("../../api-types.js").RunSnapshot} RunSnapshot
 */

/** Loads all interrupts of a run, in their order. */
export async function interruptsOf(api, runId) {
    const found = [];
    let cursor;
    for (let page = 0; page < PAGES_MAX; page += 1) {
        /** @type {InterruptHistory} */
        const answer = await api.get(`/v1/runs/${encodeURIComponent(runId)}/interrupts`, { query: { limit: PAGE, cursor } });
        found.push(...answer.interrupts.map((entry) => fromRun(entry, runId)));
        cursor = answer.nextCursor;
        if (!cursor) {
            break;
        }
    }
    return found;
}

/**
 * Loads the run; null if the caller may not read it or if it does not exist.
 * @returns {Promise<RunSnapshot | null>}
 */
export async function runOf(api, runId) {
    try {
        return await api.get(`/v1/runs/${encodeURIComponent(runId)}`);
    } catch (error) {
        if (error?.status === 403 || error?.status === 404) {
            return null;
        }
        throw error;
    }
}

/** Loads the next pending interrupt of the caller other than `interruptId`; null if there is none. */
export async function nextOf(api, interruptId) {
    /** @type {PendingInterrupts} */
    const answer = await api.get("/v1/interrupts", { query: { assignee: "me", limit: 5 } });
    return answer.interrupts.find((entry) => entry.interruptId !== interruptId) ?? null;
}

/**
 * Loads the definition of a workflow for its drawing, or the reason why there is none.
 * @param {Object} api
 * @param {string} workflowId
 * @param {string[]} [scopes] of the caller
 * @returns {Promise<{workflow: import("../../api-types.js").WorkflowDefinition | null, why?: string}>}
 */
export async function definitionOf(api, workflowId, scopes) {
    if (scopes && !scopes.includes("manifest:read")) {
        return { workflow: null, why: texts.drawingNoScope };
    }
    try {
        return { workflow: await api.get(`/v1/workflows/${encodeURIComponent(workflowId)}`) };
    } catch (error) {
        if (typeof error?.status !== "number") {
            throw error;
        }
        const whys = { 403: texts.drawingNoScope, 404: texts.noDrawing };
        return { workflow: null, why: whys[error.status] ?? texts.drawingFailed };
    }
}
