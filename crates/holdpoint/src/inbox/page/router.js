//! Addresses of the page and their views. A proxy may add a prefix to all paths.

const PATTERNS = [
    ["list", /^\/inbox\/?$/, []],
    ["interrupt", /^\/inbox\/pauses\/([^/]+)\/([^/]+)\/?$/, ["runId", "nodeId"]],
    ["runs", /^\/inbox\/runs\/?$/, []],
    ["run", /^\/inbox\/runs\/([^/]+)\/?$/, ["runId"]],
];

/** Returns the prefix that a proxy adds to all paths. This file is served at `…/inbox/assets/<hash>/router.js`. */
export function prefixOf(moduleUrl) {
    return new URL("../../..", moduleUrl).pathname.replace(/\/$/, "");
}

/**
 * @returns {{view: "list" | "interrupt" | "runs" | "run" | "unknown", params: Object}} `params` has the parts of the path and
 *   the parameters of the query: `?do=edit` is `params.do`.
 */
export function parse(path, search = "") {
    for (const [view, pattern, names] of PATTERNS) {
        const found = pattern.exec(path);
        const parts = found?.slice(1).map(decoded);
        if (found && parts.every((part) => part !== null)) {
            const query = Object.fromEntries(new URLSearchParams(search));
            return { view, params: { ...query, ...Object.fromEntries(names.map((name, index) => [name, parts[index]])) } };
        }
    }
    return { view: "unknown", params: {} };
}

export const paths = {
    list: () => "/inbox",
    interrupt: (runId, nodeId) => `/inbox/pauses/${encodeURIComponent(runId)}/${encodeURIComponent(nodeId)}`,
    // A node can have several open interrupts.
    item: ({ runId, nodeId, interruptId }) =>
        `${paths.interrupt(runId, nodeId)}${interruptId ? `?interrupt=${encodeURIComponent(interruptId)}` : ""}`,
    runs: () => "/inbox/runs",
    run: (runId) => `/inbox/runs/${encodeURIComponent(runId)}`,
};

/** Returns the token of a sign-in link, or null. */
export function onceOf(hash) {
    return new URLSearchParams(hash.replace(/^#/, "")).get("once") || null;
}

/**
 * Opens links within the page, and follows the back and forward buttons of the browser.
 * @param {Window} window
 * @param {string} prefix
 * @param {(route: {view: string, params: Object}) => void} show
 */
export function startRouter(window, prefix, show) {
    const { document, history, location } = window;
    const current = () => parse(location.pathname.slice(prefix.length), location.search);
    const navigate = (path, { isReplaced = false } = {}) => {
        const target = prefix + path;
        if (isReplaced) {
            history.replaceState(null, "", target);
        } else {
            history.pushState(null, "", target);
        }
        show(current());
    };
    /** Changes the address without a new view. */
    const remember = (path) => history.replaceState(null, "", prefix + path);
    window.addEventListener("popstate", () => show(current()));
    document.addEventListener("click", (event) => {
        const path = pathOf(event, location, prefix);
        if (path !== null) {
            event.preventDefault();
            navigate(path);
        }
    });
    return { navigate, remember, current, href: (path) => prefix + path };
}

/** Returns the path of the page that a click opens; null if the browser handles the click. */
function pathOf(event, location, prefix) {
    const link = event.target.closest?.("a[href]");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented || link.target) {
        return null;
    }
    const target = new URL(link.href, location.href);
    if (target.origin !== location.origin || link.getAttribute("href").startsWith("#") || !target.pathname.startsWith(`${prefix}/inbox`)) {
        return null;
    }
    const path = target.pathname.slice(prefix.length);
    return parse(path).view === "unknown" ? null : path + target.search;
}

function decoded(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return null;
    }
}
