//! The controls of a run: pause, resume, cancel, and fork at an event. Each requires a confirmation.

import { h } from "../dom.js";
import { form } from "../form/schema.js";
import { afterChange, panel } from "../decide/panel.js";
import { run as texts } from "../texts/run.js";
import { isFinished } from "./model.js";

/** @param {{run: Object, api: Object, scopes: string[], keyFor: Function, redraw: () => void, done: (label: string) => void, turn: number}} facts
 *   `turn` changes with the status of the run, so that a second pause gets another idempotency key than the first */
export function controlPanel({ run, api, scopes, keyFor, redraw, done, turn }) {
    if (isFinished(run.status) || (scopes && !scopes.includes("runs:cancel"))) {
        return null;
    }
    const base = `/v1/runs/${encodeURIComponent(run.runId)}`;
    // A pause that still waits for running nodes can be resumed, too.
    const isPaused = run.status === "paused" || Boolean(run.pauseRequestedAt);
    const ways = [
        isPaused
            ? simpleWay("resume", texts.resumeRun, texts.resumeAbout, "plain")
            : reasonWay("pause", texts.pauseRun, texts.pauseAbout, "plain", redraw),
        reasonWay("cancel", texts.cancelRun, texts.cancelAbout, "reject", redraw),
    ];
    const paths = { resume: `${base}:resume`, pause: `${base}:pause`, cancel: `${base}/cancel` };
    const send = (body, way) => api.post(paths[way.id], body, { idempotencyKey: keyFor({ path: paths[way.id], body, turn }) });
    return panel({
        id: "control",
        ways,
        heading: texts.control,
        redraw,
        send,
        sent: (_result, way) => done(way.label),
        over: () => done(null),
    });
}

function simpleWay(id, label, about, look) {
    return { id, label, look, confirmsFirst: true, review: () => h("p", {}, about), build: () => ({}) };
}

function reasonWay(id, label, about, look, redraw) {
    const schema = { type: "object", properties: { reason: { type: "string", title: texts.reason } } };
    const fields = form(schema, { id: `control-${id}`, change: afterChange(redraw) });
    return {
        id,
        label,
        look,
        about: h("p", {}, about),
        fields,
        prefix: "",
        build: (value) => (value?.reason ? { reason: value.reason } : {}),
    };
}

/** Creates the panel that forks the run before an event. */
export function forkPanel({ run, sequence, api, scopes, keyFor, redraw, forked }) {
    const isAllowed = !scopes || (scopes.includes("runs:create") && scopes.includes("runs:read"));
    if (!isAllowed || sequence === 0) {
        return null;
    }
    const path = `/v1/runs/${encodeURIComponent(run.runId)}:fork`;
    const way = simpleWay("fork", texts.fork, texts.forkAbout(sequence), "plain");
    const send = () => {
        const body = { mode: "branch", fromSeq: sequence };
        return api.post(path, body, { idempotencyKey: keyFor({ path, body, times: forked.count() }) });
    };
    return panel({ id: `fork-${sequence}`, ways: [way], redraw, send, sent: (result) => forked.done(result) });
}
