//! What of the list somebody wants to see: in the address of the page, as the API is asked, and what a search finds.

export const PAGE = 50;
export const ORDERS = ["oldest", "newest", "deadline"];
export const KINDS = [
    "approval",
    "clarification",
    "external-event",
    "low-confidence",
    "conversation.start",
    "conversation.exchange",
    "conversation.close",
    "custom",
];

/**
 * @typedef {{isMine: boolean, kinds: string[], workflowId: string, tag: string, order: string, text: string}} Filters
 *
 * @param {Object} params Those of the address.
 * @returns {Filters}
 */
export function filtersFrom(params) {
    return {
        isMine: params.whose !== "all",
        kinds: (params.kind ?? "").split(",").filter((kind) => KINDS.includes(kind)),
        workflowId: params.workflow ?? "",
        tag: params.tag ?? "",
        order: ORDERS.includes(params.order) ? params.order : "oldest",
        text: params.q ?? "",
    };
}

/** The address's part for these filters; empty for what everybody begins with. */
export function searchOf(filters) {
    const pairs = [
        ["whose", filters.isMine ? "" : "all"],
        ["kind", filters.kinds.join(",")],
        ["workflow", filters.workflowId],
        ["tag", filters.tag],
        ["order", filters.order === "oldest" ? "" : filters.order],
        ["q", filters.text],
    ].filter(([, value]) => value !== "");
    const search = new URLSearchParams(pairs).toString();
    return search ? `?${search}` : "";
}

/** Which of the filters hide something that would else be there. */
export function narrowing(filters) {
    return filters.kinds.length + Number(filters.workflowId !== "") + Number(filters.tag !== "") + Number(filters.text.trim() !== "") + Number(filters.order === "deadline");
}

export function withoutFilters(filters) {
    const order = filters.order === "deadline" ? "oldest" : filters.order;
    return { ...filters, kinds: [], workflowId: "", tag: "", text: "", order };
}

/** Counts are asked for all kinds, so that the choice among them shows how many there are of each. */
export function countsQuery(filters) {
    return { assignee: filters.isMine ? "me" : "", workflowId: filters.workflowId, tag: filters.tag };
}

export function pageQuery(filters, order = filters.order) {
    return { ...countsQuery(filters), kind: filters.kinds, order };
}

/** Whether an item has every word that is searched for, somewhere. */
export function matches(item, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
        return true;
    }
    const parts = [item.title, item.excerpt, item.workflowId, item.nodeId, item.runId, item.kind, ...(item.tags ?? []), ...(item.assignees ?? [])];
    const all = parts.join("\n").toLowerCase();
    return words.every((word) => all.includes(word));
}

/** How many wait of the kinds that are chosen. */
export function chosenTotal(counts, kinds) {
    return kinds.length === 0 ? counts.total : kinds.reduce((sum, kind) => sum + (counts.byKind[kind] ?? 0), 0);
}
