//! The filters of the list: in the address of the page, in the query of the API, and in the search.

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
 * @param {Object} params the parameters of the address
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

/** Returns the query of the address for these filters; empty for the defaults. */
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

/** Returns the number of filters that hide items. */
export function narrowing(filters) {
    return filters.kinds.length + Number(filters.workflowId !== "") + Number(filters.tag !== "") + Number(filters.text.trim() !== "") + Number(filters.order === "deadline");
}

export function withoutFilters(filters) {
    const order = filters.order === "deadline" ? "oldest" : filters.order;
    return { ...filters, kinds: [], workflowId: "", tag: "", text: "", order };
}

/** Returns the query of the counts. It includes all kinds, so that the kind filter shows the count of each. */
export function countsQuery(filters) {
    return { assignee: filters.isMine ? "me" : "", workflowId: filters.workflowId, tag: filters.tag };
}

export function pageQuery(filters, order = filters.order) {
    return { ...countsQuery(filters), kind: filters.kinds, order };
}

/** Returns whether an item contains every word of the search text. */
export function matches(item, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
        return true;
    }
    const parts = [item.title, item.excerpt, item.workflowId, item.nodeId, item.runId, item.kind, ...(item.tags ?? []), ...(item.assignees ?? [])];
    const all = parts.join("\n").toLowerCase();
    return words.every((word) => all.includes(word));
}

/** Returns the number of pending items of the chosen kinds. */
export function chosenTotal(counts, kinds) {
    return kinds.length === 0 ? counts.total : kinds.reduce((sum, kind) => sum + (counts.byKind[kind] ?? 0), 0);
}
