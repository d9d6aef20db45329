//! Formats instants, durations and deadlines. The caller passes `now`.

import { h } from "../dom.js";
import { show as texts } from "../texts/show.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const UNITS = [
    ["year", 365 * DAY],
    ["month", 30 * DAY],
    ["week", 7 * DAY],
    ["day", DAY],
    ["hour", HOUR],
    ["minute", MINUTE],
    ["second", SECOND],
];
const URGENT_MS = 5 * MINUTE;
const SOON_MS = HOUR;
const relativeFormat = new Intl.RelativeTimeFormat(texts.locale, { numeric: "auto" });

/** Returns the milliseconds of an instant of the API, or NaN. */
export function instant(at) {
    return typeof at === "number" ? at : Date.parse(at);
}

/** Returns a relative time: “3 minutes ago”, “in 2 hours”, “just now”. */
export function relative(at, now) {
    const distance = instant(at) - now;
    if (Number.isNaN(distance)) {
        return texts.unknownTime;
    }
    if (Math.abs(distance) < 10 * SECOND) {
        return texts.now;
    }
    const [unit, length] = UNITS.find(([, size]) => Math.abs(distance) >= size);
    return relativeFormat.format(Math.trunc(distance / length), unit);
}

/** Returns the instant in the time zone of the user, to the second, with the name of the zone. */
export function absolute(at, { timeZone, locale = texts.locale } = {}) {
    const time = instant(at);
    if (Number.isNaN(time)) {
        return texts.unknownTime;
    }
    const format = { dateStyle: "medium", timeStyle: "medium", timeZone };
    const zone = new Intl.DateTimeFormat(locale, { timeZone, timeZoneName: "short" });
    const name = zone.formatToParts(time).find((part) => part.type === "timeZoneName")?.value ?? "";
    return `${new Intl.DateTimeFormat(locale, format).format(time)} ${name}`.trim();
}

/** Describes a `time` element with the relative time, and the absolute time as its title. */
export function time(at, now, options) {
    const at_ms = instant(at);
    if (Number.isNaN(at_ms)) {
        return h("span", { class: "time" }, texts.unknownTime);
    }
    const attributes = { class: "time", datetime: new Date(at_ms).toISOString(), title: absolute(at_ms, options) };
    return h("time", attributes, relative(at_ms, now));
}

/** Returns a duration: “2 d 4 h”, “1 h 05 min”, “45 s”. At most two units, rounded down. */
export function duration(ms) {
    const { day, hour, minute, second } = texts.units;
    const length = Math.max(0, Math.floor(ms / SECOND)) * SECOND;
    const of = (unit, inside = Infinity) => Math.floor((length % inside) / unit);
    const two = (value) => String(value).padStart(2, "0");
    if (length >= DAY) {
        return `${of(DAY)} ${day} ${of(HOUR, DAY)} ${hour}`;
    }
    if (length >= HOUR) {
        return `${of(HOUR)} ${hour} ${two(of(MINUTE, HOUR))} ${minute}`;
    }
    if (length >= MINUTE) {
        return `${of(MINUTE)} ${minute} ${two(of(SECOND, MINUTE))} ${second}`;
    }
    return `${of(SECOND)} ${second}`;
}

/**
 * Returns the time until a deadline.
 * @returns {{text: string, level: "none" | "calm" | "soon" | "urgent" | "over", changesInMs: number | null}}
 *   `changesInMs` is the time until the text changes; no redraw is needed before.
 */
export function countdown(at, now) {
    const end = at === null || at === undefined ? NaN : instant(at);
    if (Number.isNaN(end)) {
        return { text: texts.noDeadline, level: "none", changesInMs: null };
    }
    const left = end - now;
    const size = Math.abs(left);
    const step = size >= DAY ? HOUR : size >= HOUR ? MINUTE : SECOND;
    if (left <= 0) {
        return { text: texts.overdue(duration(size)), level: "over", changesInMs: step - (size % step) };
    }
    const level = left <= URGENT_MS ? "urgent" : left <= SOON_MS ? "soon" : "calm";
    return { text: texts.left(duration(left)), level, changesInMs: (left % step) + 1 };
}

/**
 * Describes a deadline. Screen readers do not announce its changes; its title has the exact time. With `isNamed`, a
 * label is next to it and the text is only the duration.
 */
export function deadline(at, now, { isNamed = false, ...options } = {}) {
    const { text: whole, level } = countdown(at, now);
    const text = isNamed && !["none", "over"].includes(level) ? texts.within(duration(instant(at) - now)) : whole;
    if (level === "none") {
        return h("span", { class: "deadline deadline-none" }, text);
    }
    const end = instant(at);
    const attributes = { class: `deadline deadline-${level}`, datetime: new Date(end).toISOString(), title: absolute(end, options) };
    return h("time", attributes, text);
}
