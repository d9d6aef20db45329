//! Texts of workflow drawings, in English. A translation replaces the values.

export const graph = {
    title: (name) => `Workflow ${name}`,
    summary: (nodes, edges) => `${nodes} ${nodes === 1 ? "step" : "steps"}, ${edges} ${edges === 1 ? "connection" : "connections"}`,
    asList: "Show the steps as a list",
    empty: "This workflow has no steps.",
    here: "the run is here",
    now: (name, status) => `Now at ${name}: ${status}.`,
    disabled: "disabled",
    then: "Then: ",
    back: "Back to: ",
    end: "End of the path.",
    condition: "if a condition holds",
    statuses: {
        pending: "not started",
        running: "running",
        suspended: "waits for an answer",
        sleeping: "sleeping",
        awaiting: "waits for another run",
        completed: "done",
        failed: "failed",
        rejected: "rejected",
        skipped: "skipped",
    },
    /** Signs shown with the colour of a status, for readers who cannot distinguish the colours. */
    signs: {
        pending: "○",
        running: "▶",
        suspended: "‖",
        sleeping: "☾",
        awaiting: "⧗",
        completed: "✓",
        failed: "✕",
        rejected: "✕",
        skipped: "–",
    },
    rules: {
        any_success: "when any succeeds",
        any_failed: "when any fails",
        all_complete: "when all have ended",
        none_failed: "when none has failed",
    },
};
