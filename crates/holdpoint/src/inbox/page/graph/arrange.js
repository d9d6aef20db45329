//! Orders the nodes of each row and computes their horizontal positions: close to their neighbours, without overlaps.

const GAP = 28;
const ORDER_ROUNDS = 6;
const PLACE_ROUNDS = 4;

/**
 * @param {{id: unknown, width: number}[][]} rows from top to bottom; reordered in place
 * @param {{from: unknown, to: unknown}[]} links each from one row to the next
 * @returns {Map<unknown, number>} the horizontal centre by id
 */
export function arrange(rows, links) {
    const above = neighbours(links, "to", "from");
    const below = neighbours(links, "from", "to");
    for (let round = 0; round < ORDER_ROUNDS; round += 1) {
        const isDown = round % 2 === 0;
        const [sequence, near] = isDown ? [rows, above] : [[...rows].reverse(), below];
        const place = new Map(rows.flatMap((row) => row.map(({ id }, index) => [id, index])));
        for (const row of sequence) {
            reorder(row, near, place);
        }
    }
    return centers(rows, above, below);
}

function neighbours(links, end, other) {
    const found = new Map();
    for (const link of links) {
        if (!found.has(link[end])) {
            found.set(link[end], []);
        }
        found.get(link[end]).push(link[other]);
    }
    return found;
}

/**
 * Sorts a row by the mean position of the neighbours. Nodes without neighbours keep their position; the sort is
 * stable.
 */
function reorder(row, near, place) {
    const wanted = new Map(row.map(({ id }, index) => [id, mean(near.get(id), place) ?? index]));
    row.sort((a, b) => wanted.get(a.id) - wanted.get(b.id));
    row.forEach(({ id }, index) => place.set(id, index));
}

function mean(ids, place) {
    if (!ids || ids.length === 0) {
        return undefined;
    }
    return ids.reduce((sum, id) => sum + place.get(id), 0) / ids.length;
}

function centers(rows, above, below) {
    const found = new Map();
    for (const row of rows) {
        spread(row, row.map(() => 0), found);
    }
    for (let round = 0; round < PLACE_ROUNDS; round += 1) {
        const isDown = round % 2 === 0;
        const near = isDown ? above : below;
        for (const row of isDown ? rows : [...rows].reverse()) {
            spread(row, row.map(({ id }) => mean(near.get(id), found) ?? found.get(id)), found);
        }
    }
    return found;
}

/** Places a row close to the wanted centres: the mean of resolving all overlaps to the right and to the left. */
function spread(row, wanted, found) {
    const distance = (index) => (row[index - 1].width + row[index].width) / 2 + GAP;
    const right = [...wanted];
    for (let index = 1; index < row.length; index += 1) {
        right[index] = Math.max(right[index], right[index - 1] + distance(index));
    }
    const left = [...wanted];
    for (let index = row.length - 2; index >= 0; index -= 1) {
        left[index] = Math.min(left[index], left[index + 1] - distance(index + 1));
    }
    row.forEach(({ id }, index) => found.set(id, (right[index] + left[index]) / 2));
}
