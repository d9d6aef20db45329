//! Addresses of the page and what they show. All are below the place the page is served at, which may itself be below
//! something that a proxy puts before all paths.

const PATTERNS = [
    ["list", /^\/inbox\/?$/, []],
    ["pause", /^\/inbox\/pauses\/([^/]+)\/([^/]+)\/?$/, ["runId", "nodeId"]],
    ["runs", /^\/inbox\/runs\/?$/, []],
    ["run", /^\/inbox\/runs\/([^/]+)\/?$/, ["runId"]],
];

/** What a proxy puts before our paths; this file is served at `…/inbox/assets/<hash>/router.js`. */
export function prefixOf(moduleUrl) {
    return new URL("../../..", moduleUrl).pathname.replace(/\/$/, "");
}

/**
 * @returns {{view: "list" | "pause" | "runs" | "run" | "unknown", params: Object}} `params` has the parts of the path and, beside
 *   them, those of the query: `?do=edit` is `params.do`.
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
    pause: (runId, nodeId) => `/inbox/pauses/${encodeURIComponent(runId)}/${encodeURIComponent(nodeId)}`,
    // A node may ask several things at once.
    item: ({ runId, nodeId, interruptId }) =>
        `${paths.pause(runId, nodeId)}${interruptId ? `?interrupt=${encodeURIComponent(interruptId)}` : ""}`,
    runs: () => "/inbox/runs",
    run: (runId) => `/inbox/runs/${encodeURIComponent(runId)}`,
};

/** The token of a link that signs in once, if the address has one. */
export function onceOf(hash) {
    return new URLSearchParams(hash.replace(/^#/, "")).get("once") || null;
}

/**
 * Follows links within the page, and the browser's own ways back and forth.
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
    /** Another address for what is shown already. */
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

/** The path of ours that a click leads to; null when the browser shall do what it does with links. */
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
