//! Compares two lists with the algorithm of Myers, with limits on its time. Creates no elements.

/** The maximum number of insertions and deletions, and of comparisons. */
const CHANGES_MAX = 1_500;
const STEPS_MAX = 8_000_000;

/**
 * Returns the shortest edit script between two lists.
 * @param {unknown[]} before compared with ===
 * @param {unknown[]} after
 * @returns {{kind: "same" | "removed" | "added", before: number, after: number, length: number}[] | null}
 *   stretches in their order; null if the lists are too different
 */
export function compare(before, after, { changesMax = CHANGES_MAX } = {}) {
    const shorter = Math.min(before.length, after.length);
    let head = 0;
    while (head < shorter && before[head] === after[head]) {
        head += 1;
    }
    let tail = 0;
    while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) {
        tail += 1;
    }
    const middle = path(before.slice(head, before.length - tail), after.slice(head, after.length - tail), changesMax);
    if (!middle) {
        return null;
    }
    const stretches = [];
    add(stretches, "same", 0, 0, head);
    for (const { kind, before: from, after: to, length } of middle) {
        add(stretches, kind, from + head, to + head, length);
    }
    add(stretches, "same", before.length - tail, after.length - tail, tail);
    return stretches;
}

/** Returns the script that removes all old items and adds all new ones, for lists that are too different. */
export function replaced(before, after) {
    const stretches = [];
    add(stretches, "removed", 0, 0, before.length);
    add(stretches, "added", before.length, 0, after.length);
    return stretches;
}

function add(stretches, kind, before, after, length) {
    const last = stretches.at(-1);
    if (length === 0) {
        return;
    }
    if (last?.kind === kind) {
        last.length += length;
    } else {
        stretches.push({ kind, before, after, length });
    }
}

function path(before, after, changesMax) {
    if (before.length === 0 || after.length === 0) {
        return replaced(before, after);
    }
    const most = Math.min(before.length + after.length, changesMax);
    const reach = new Int32Array(2 * most + 3);
    const trace = [];
    const middle = most + 1;
    let steps = 0;
    for (let changes = 0; changes <= most; changes += 1) {
        trace.push(reach.slice(middle - changes - 1, middle + changes + 2));
        for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
            const down = isDown(reach, middle + diagonal, diagonal, changes);
            let x = down ? reach[middle + diagonal + 1] : reach[middle + diagonal - 1] + 1;
            while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) {
                x += 1;
                steps += 1;
            }
            reach[middle + diagonal] = x;
            if (x >= before.length && x - diagonal >= after.length) {
                return walkBack(trace, before.length, after.length);
            }
        }
        steps += changes;
        if (steps > STEPS_MAX) {
            return null;
        }
    }
    return null;
}

function isDown(reach, index, diagonal, changes) {
    return diagonal === -changes || (diagonal !== changes && reach[index - 1] < reach[index + 1]);
}

/** Walks from the end to the start over the furthest points of each number of changes. */
function walkBack(trace, beforeLength, afterLength) {
    const reversed = [];
    let x = beforeLength;
    let y = afterLength;
    for (let changes = trace.length - 1; changes >= 0; changes -= 1) {
        const reach = trace[changes];
        const middle = changes + 1;
        const diagonal = x - y;
        const down = isDown(reach, middle + diagonal, diagonal, changes);
        const fromDiagonal = down ? diagonal + 1 : diagonal - 1;
        const fromX = changes === 0 ? 0 : reach[middle + fromDiagonal];
        const fromY = changes === 0 ? 0 : fromX - fromDiagonal;
        const startX = changes === 0 ? 0 : down ? fromX : fromX + 1;
        if (x > startX) {
            reversed.push({ kind: "same", before: startX, after: startX - diagonal, length: x - startX });
        }
        if (changes > 0) {
            reversed.push({ kind: down ? "added" : "removed", before: fromX, after: fromY, length: 1 });
        }
        x = fromX;
        y = fromY;
    }
    return joined(reversed.reverse());
}

/** Joins neighbours of one kind. Within a change, removed items come first. */
function joined(pieces) {
    const stretches = [];
    let at = 0;
    while (at < pieces.length) {
        if (pieces[at].kind === "same") {
            const { before, after, length } = pieces[at];
            add(stretches, "same", before, after, length);
            at += 1;
            continue;
        }
        const start = pieces[at];
        const amount = { removed: 0, added: 0 };
        while (at < pieces.length && pieces[at].kind !== "same") {
            amount[pieces[at].kind] += 1;
            at += 1;
        }
        add(stretches, "removed", start.before, start.after, amount.removed);
        add(stretches, "added", start.before + amount.removed, start.after, amount.added);
    }
    return stretches;
}
