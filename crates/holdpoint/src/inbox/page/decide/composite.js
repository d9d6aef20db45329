//! Combines several forms into one, for answers with other content between their parts.

import { h } from "../dom.js";

/**
 * @param {{name: string, form: {describe: Function, read: Function, isTouched?: Function}, before?: import("../dom.js").Description,
 *   isShown?: () => boolean, isWhole?: boolean, isOptional?: boolean}[]} parts `name` is the member of the value; the
 *   members of an `isWhole` part become members of the value itself; an `isOptional` part may stay empty
 * @param {() => import("../dom.js").Description | null} [above] describes the content above the parts
 */
export function composite(parts, above = () => null) {
    const shown = () => parts.filter((part) => part.isShown?.() ?? true);
    return {
        describe: ({ errors = {} } = {}) =>
            h(
                "div",
                { class: "composite" },
                above(),
                shown().map((part) => drawPart(part, errorsOf(part, errors, shown()))),
            ),
        read: () => readAll(shown()),
        isTouched: () => parts.some((part) => part.form.isTouched?.() ?? false),
    };
}

function drawPart({ name, before, form }, errors) {
    return h("div", { key: name, class: "composite-part" }, before, form.describe({ errors }));
}

function readAll(parts) {
    const members = [];
    const errors = {};
    for (const part of parts) {
        const found = part.form.read();
        if (part.isOptional && isBlank(found.value)) {
            continue;
        }
        if (part.isWhole) {
            members.push(...Object.entries(found.value ?? {}));
        } else if (found.value !== undefined) {
            members.push([part.name, found.value]);
        }
        for (const [pointer, message] of Object.entries(found.errors)) {
            errors[`${part.isWhole ? "" : pointerTo(part)}${pointer}`] = message;
        }
    }
    return { value: Object.fromEntries(members), errors };
}

function isBlank(value) {
    return value === undefined || value === null || value === "";
}

/** Returns the errors of a part, by pointers within it. The first part gets the errors that belong to no part. */
function errorsOf(part, errors, parts) {
    const own = {};
    for (const [pointer, message] of Object.entries(errors)) {
        const home = parts.find((other) => !other.isWhole && isBelow(pointer, pointerTo(other)));
        if (home === part) {
            own[pointer.slice(pointerTo(part).length)] = message;
        } else if (!home && part === (parts.find((other) => other.isWhole) ?? parts[0])) {
            own[part.isWhole ? pointer : ""] = message;
        }
    }
    return own;
}

function isBelow(pointer, place) {
    return pointer === place || pointer.startsWith(`${place}/`);
}

function pointerTo({ name }) {
    return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
