//! Keyboard navigation in a list. It moves the focus, so that screen readers announce the item.

/** Creates the navigation. It remembers the last focused item. */
export function createMover(document) {
    let last = null;

    const links = () => Array.from(document.querySelectorAll(".item-list .item-title"));
    const idOf = (element) => element?.closest?.("[data-item]")?.getAttribute("data-item") ?? null;

    function current() {
        return idOf(document.activeElement) ?? (document.activeElement === document.body || document.activeElement?.id === "main" ? last : null);
    }

    /** Moves by one item. Returns false at the end of the page. */
    function move(step) {
        const all = links();
        const at = all.findIndex((link) => idOf(link) === (idOf(document.activeElement) ?? last));
        const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
        if (next < 0 || next >= all.length) {
            return false;
        }
        focus(all[next]);
        return true;
    }

    function focus(link) {
        link?.focus();
        // The fixed bar above the list must not cover the item.
        link?.closest("[data-item]").scrollIntoView({ block: "nearest" });
        last = idOf(link);
    }

    return {
        current,
        move,
        remember: (id) => { last = id; },
        last: () => last,
        to: (id) => focus(links().find((link) => idOf(link) === id)),
        toFirst: () => focus(links()[0]),
        toLast: () => focus(links().at(-1)),
    };
}
