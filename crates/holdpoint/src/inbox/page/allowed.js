//! The allowlist of tags, attributes and addresses of the page. The page cannot create any others.

const HTML_TAGS = `a abbr article aside b bdi blockquote br button caption code dd del details dfn dialog div dl dt em
    fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr i input ins kbd label legend li main mark menu meter
    nav ol optgroup option output p pre progress q s samp search section select small span strong sub summary sup table tbody
    td textarea tfoot th thead time tr u ul var`;
const SVG_TAGS = "svg g path rect circle ellipse line polyline polygon text tspan title desc defs marker";

const NAMES = `class id href type for name value checked disabled required readonly min max step placeholder rows role
    tabindex title lang dir hidden open colspan rowspan scope datetime autocomplete inputmode pattern minlength maxlength
    multiple selected autofocus novalidate spellcheck translate wrap size low high optimum`;
const SVG_NAMES = `viewBox width height x y x1 y1 x2 y2 cx cy r rx ry d points transform preserveAspectRatio
    text-anchor dominant-baseline marker-start marker-end markerWidth markerHeight refX refY orient focusable`;

const TAGS = words(`${HTML_TAGS} ${SVG_TAGS}`);
const ALLOWED_NAMES = words(`${NAMES} ${SVG_NAMES}`);
const PROTOCOLS = new Set(["http:", "https:", "mailto:"]);
/** A reserved origin that no server has. It distinguishes addresses within this page from others. */
const NOWHERE = "http://page.invalid";

export function isAllowedTag(tag) {
    return TAGS.has(tag);
}

export function isAllowedName(name) {
    return ALLOWED_NAMES.has(name) || /^(aria|data)-[a-z0-9]+(-[a-z0-9]+)*$/.test(name);
}

/**
 * Returns the address if a link may have it: http, https, mailto, or relative to this page. Otherwise returns null.
 * Uses the URL parser of the browser, so that both interpret `java\tscript:` and `/\host` in the same way.
 * @param {unknown} href
 * @returns {string | null}
 */
export function safeHref(href) {
    const parsed = parse(href, `${NOWHERE}/`);
    return parsed && PROTOCOLS.has(parsed.protocol) ? String(href).trim() : null;
}

/**
 * Returns the parsed address if it is absolute and its protocol is http, https or mailto. Otherwise returns null.
 * @returns {URL | null}
 */
export function absoluteUrl(href) {
    const parsed = parse(href, undefined);
    return parsed && PROTOCOLS.has(parsed.protocol) ? parsed : null;
}

/** Returns `href` and the attributes of a link to another origin; no attributes for an address that is not allowed. */
export function linkAttributes(href, base) {
    const safe = safeHref(href);
    if (safe === null) {
        return {};
    }
    const here = parse(base ?? "", `${NOWHERE}/`) ?? new URL(NOWHERE);
    const target = parse(safe, here.href);
    if (!target || target.protocol === "mailto:" || target.origin === here.origin) {
        return { href: safe };
    }
    return { href: safe, rel: "noopener noreferrer nofollow", target: "_blank" };
}

function parse(href, base) {
    if (typeof href !== "string") {
        return null;
    }
    try {
        return new URL(href, base);
    } catch {
        return null;
    }
}

function words(text) {
    return new Set(text.split(/\s+/));
}
