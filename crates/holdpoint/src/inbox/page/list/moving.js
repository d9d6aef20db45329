//! Going through the list with the keyboard: the focus itself moves, so that readers hear where they are.

/** The element of the item that has the focus, or had it last. */
export function createMover(document) {
    let last = null;

    const links = () => Array.from(document.querySelectorAll(".item-list .item-title"));
    const idOf = (element) => element?.closest?.("[data-item]")?.getAttribute("data-item") ?? null;

    function current() {
        return idOf(document.activeElement) ?? (document.activeElement === document.body || document.activeElement?.id === "main" ? last : null);
    }

    /** Moves by one. Returns false at the end, where another page may follow. */
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
        // The bar above the list stays in place and must not cover it.
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
