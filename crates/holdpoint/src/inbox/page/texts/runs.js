//! Texts of the list of runs, in English. A translation replaces the values.

const number = new Intl.NumberFormat("en");
const count = (amount, one, many) => `${number.format(amount)} ${amount === 1 ? one : many}`;

export const runs = {
    title: "Runs",
    lead: "All runs with their decisions, newest first.",
    filter: "Status",
    groups: {
        all: "All",
        waiting: "Waiting",
        running: "Running",
        completed: "Completed",
        failed: "Failed",
        cancelled: "Cancelled",
    },
    hold: "Hold",
    started: "started",
    id: "Run",
    refresh: "Show changes",
    loaded: (amount) => `${count(amount, "run", "runs")} shown.`,
    nothing: "No runs yet",
    nothingLead: "Runs are listed here with their status and decisions.",
    nothingSuch: "No runs with this status",
    showAll: "Show all runs",
    emptyPage: "This page is empty",
    failed: (why) => `The runs could not be loaded: ${why}`,
    noScope: "Your key may not read runs (the scope runs:read).",
    keyDown: "Next run",
    keyUp: "Previous run",
    keyOpen: "Open its timeline (also Enter)",
    keyNextPage: "Next page",
    keyPreviousPage: "Previous page",
};
