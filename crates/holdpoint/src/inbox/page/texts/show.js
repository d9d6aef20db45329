//! Texts around displayed content, in English. A translation replaces the values.

const number = new Intl.NumberFormat("en");
const count = (amount, one, many) => `${number.format(amount)} ${amount === 1 ? one : many}`;

export const show = {
    locale: "en",

    emptyText: "(empty text)",
    nothing: "(nothing)",
    hiddenCharacter: (name) => `Invisible character: ${name}`,
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
    roundedNumber: "Too large to be exact: different numbers may look the same",

    table: "Table",
    tableCaption: (rows, columns) => `${count(rows, "row", "rows")}, ${count(columns, "column", "columns")}`,
    row: "Row",
    absent: "—",
    absentLong: "not given",

    diffSame: "No changes.",
    diffLabel: "Changes",
    diffSummary: (added, removed) => `${count(added, "line", "lines")} added, ${number.format(removed)} removed`,
    diffChanges: (changed, added, removed) =>
        `${number.format(changed)} changed, ${number.format(added)} added, ${number.format(removed)} removed`,
    diffTooDifferent: "The versions are too different to compare line by line: first the old version, then the new one.",
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
    whole: "the whole value",

    now: "just now",
    left: (duration) => `due in ${duration}`,
    within: (duration) => `in ${duration}`,
    overdue: (duration) => `overdue by ${duration}`,
    noDeadline: "no deadline",
    units: { day: "d", hour: "h", minute: "min", second: "s" },
    unknownTime: "unknown time",

    digest: "Digest",
    digestOf: "Digest of the content",
    digestSame: "This page has computed the digest: the content shown is the content recorded.",
    digestDifferent: "The digest does not match the content of this page. Do not decide. Reload the page, and tell the operator if this message remains.",
    digestUnknown: "This browser cannot compute the digest here (it requires https or localhost).",
};
