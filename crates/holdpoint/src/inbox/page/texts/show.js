//! What the page says around things that are shown. In English; a translation replaces the values.

const number = new Intl.NumberFormat("en");
const count = (amount, one, many) => `${number.format(amount)} ${amount === 1 ? one : many}`;

export const show = {
    locale: "en",

    emptyText: "(empty text)",
    nothing: "(nothing)",
    hiddenCharacter: (name) => `A character that cannot be seen: ${name}`,
    showMoreCharacters: (left) => `Show more (${count(left, "character", "characters")} left)`,

    markdownSource: "Show the source of this text",
    showMoreBlocks: "Show more of this text",
    imageNotLoaded: (label) => `Image, not loaded: ${label}`,
    imageWithoutText: "without a description",
    taskDone: "☑ ",
    taskOpen: "☐ ",
    code: "Code",
    codeIn: (language) => `Code (${language})`,

    members: (amount) => count(amount, "member", "members"),
    items: (amount) => count(amount, "item", "items"),
    noMembers: "no members",
    noItems: "no items",
    showMoreEntries: (next, left) => `Show ${number.format(next)} more (${number.format(left)} left)`,
    tree: "Content as a tree",
    asJson: "Show it as JSON",
    roundedNumber: "Too large for exact arithmetic: other numbers may look the same",
    tooDeep: "Too deeply nested to show here",

    table: "Table",
    tableCaption: (rows, columns) => `${count(rows, "row", "rows")}, ${count(columns, "column", "columns")}`,
    row: "Row",
    absent: "—",
    absentLong: "not given",

    diffSame: "Nothing has changed.",
    diffLabel: "Changes",
    diffSummary: (added, removed) => `${count(added, "line", "lines")} added, ${number.format(removed)} removed`,
    diffChanges: (changed, added, removed) =>
        `${number.format(changed)} changed, ${number.format(added)} added, ${number.format(removed)} removed`,
    diffTooDifferent: "The two are too different to compare line by line. First all that was, then all that is now.",
    diffTooLarge: "The two lists are too different to compare item by item.",
    diffUnchanged: (lines) => `Show ${count(lines, "unchanged line", "unchanged lines")}`,
    diffMoreRows: (left) => `Show more (${count(left, "line", "lines")} left)`,
    before: "Before",
    after: "After",
    beforeLine: "Line before",
    afterLine: "Line after",
    added: "added",
    removed: "removed",
    changed: "changed",
    unchanged: "unchanged",
    whole: "the whole",

    now: "just now",
    left: (duration) => `due in ${duration}`,
    within: (duration) => `in ${duration}`,
    overdue: (duration) => `overdue by ${duration}`,
    noDeadline: "no deadline",
    units: { day: "d", hour: "h", minute: "min", second: "s" },
    unknownTime: "unknown time",

    digest: "Digest",
    digestOf: "Digest of what is shown",
    digestSame: "This page has worked out the digest itself: what you see is what is recorded.",
    digestDifferent: "The digest does not fit what this page shows. Do not decide; reload, and tell your operator if it stays.",
    digestUnknown: "This browser cannot work out the digest here (it needs https or this very machine).",
};
