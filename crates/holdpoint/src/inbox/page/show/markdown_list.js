//! Splits Markdown lists into the lines of their items. The caller parses the lines.

/** The maximum number of items of one list. A longer list is split, so that it can be shown in portions. */
const ITEMS_MAX = 200;

/**
 * Returns the list marker at the start of a line, or null.
 * @returns {{indent: number, width: number, isOrdered: boolean, kind: string, start: number, isEmpty: boolean} | null}
 */
export function listMarker(line) {
    const found = /^( {0,3})(?:([-*+])|(\d{1,9})([.)]))( {1,4}|\t|$)/.exec(line);
    if (!found) {
        return null;
    }
    const [whole, indent, bullet, start, closing, space] = found;
    const rest = line.slice(whole.length);
    // Five or more spaces start code within the item: one of them belongs to the marker.
    const isCode = space.length === 4 && rest.startsWith(" ");
    const isEmpty = rest.trim() === "";
    const width = isCode || isEmpty ? whole.length - space.length + 1 : whole.length;
    return { indent: indent.length, width, isOrdered: bullet === undefined, kind: bullet ?? closing, start: Number(start), isEmpty };
}

/**
 * Reads the items of a list, each as lines without their indent, and advances the reader.
 * @returns {{items: string[][], isLoose: boolean}}
 */
export function listItems(reader, first) {
    const items = [];
    let marker = first;
    let isLoose = false;
    while (marker && items.length < ITEMS_MAX) {
        const { lines, endsEmpty } = itemLines(reader, marker);
        items.push(lines);
        const following = reader.at < reader.lines.length ? reader.lines[reader.at] : "";
        marker = sameKind(listMarker(following), first);
        isLoose ||= hasParagraphs(lines) || (endsEmpty && marker !== null);
    }
    return { items, isLoose };
}

/** Returns whether an item has several blocks. Empty lines within a nested list do not count. */
function hasParagraphs(lines) {
    return lines.some((line, index) => line.trim() === "" && index + 1 < lines.length && /^ ?\S/.test(lines[index + 1]));
}

function sameKind(marker, first) {
    return marker && marker.kind === first.kind && marker.isOrdered === first.isOrdered ? marker : null;
}

function itemLines(reader, marker) {
    const lines = [reader.lines[reader.at].slice(marker.width)];
    reader.at += 1;
    let isAfterEmpty = false;
    while (reader.at < reader.lines.length) {
        const line = reader.lines[reader.at];
        const isEmpty = line.trim() === "";
        const isInside = indentOf(line) >= marker.width;
        const isLazy = !isAfterEmpty && !listMarker(line) && !/^ {0,3}(#{1,6}\s|>|`{3}|~{3})/.test(line);
        if (!isEmpty && !isInside && !isLazy) {
            break;
        }
        lines.push(isInside ? withoutIndent(line, marker.width) : line.trimStart());
        isAfterEmpty = isEmpty;
        reader.at += 1;
    }
    const endsEmpty = lines.at(-1).trim() === "" && lines.length > 1;
    while (lines.length > 1 && lines.at(-1).trim() === "") {
        lines.pop();
    }
    return { lines, endsEmpty };
}

function indentOf(line) {
    let columns = 0;
    for (const character of line) {
        if (character === " ") {
            columns += 1;
        } else if (character === "\t") {
            columns += 4;
        } else {
            return columns;
        }
    }
    return columns;
}

function withoutIndent(line, columns) {
    let left = columns;
    let at = 0;
    while (left > 0 && (line[at] === " " || line[at] === "\t")) {
        left -= line[at] === "\t" ? 4 : 1;
        at += 1;
    }
    return " ".repeat(Math.max(0, -left)) + line.slice(at);
}
