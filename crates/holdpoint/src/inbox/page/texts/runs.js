//! What the page says around the list of runs. In English; a translation replaces the values.

const number = new Intl.NumberFormat("en");
const count = (amount, one, many) => `${number.format(amount)} ${amount === 1 ? one : many}`;

export const runs = {
    title: "Runs",
    lead: "What has run here, newest first: what was decided, what waits, what failed.",
    filter: "Which runs",
    groups: {
        all: "All",
        waiting: "Waiting",
        running: "Running",
        completed: "Completed",
        failed: "Failed",
        cancelled: "Cancelled",
    },
    hold: "A question without a workflow",
    began: "began",
    id: "Run",
    refresh: "Show what has changed",
    loaded: (amount) => `${count(amount, "run", "runs")} shown.`,
    nothing: "Nothing has run here yet",
    nothingLead: "What runs, waits and was decided is listed here.",
    nothingSuch: "There is no such run",
    showAll: "Show all runs",
    emptyPage: "This page is empty",
    failed: (why) => `The runs could not be loaded: ${why}`,
    noScope: "Your key may not read runs (the scope runs:read).",
    keyDown: "Next run",
    keyUp: "Previous run",
    keyOpen: "Open its timeline (so does Enter)",
    keyNextPage: "Next page",
    keyPreviousPage: "Previous page",
};
