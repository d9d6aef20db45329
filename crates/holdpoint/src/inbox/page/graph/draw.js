//! Draws a workflow, and lists its steps for readers who cannot see the drawing. Names are untrusted text.

import { folded, h } from "../dom.js";
import { shortText } from "../show/characters.js";
import { graph as texts } from "../texts/graph.js";
import { layout, NODE_HEIGHT, NODE_WIDTH } from "./layout.js";

const NAME_CHARACTERS = 24;
const LABEL_CHARACTERS = 22;
const LONG_NAME = 200;
const ARROW = 5;
const CORNER = 8;

/**
 * @param {Object} workflow a definition: `name`, `nodes`, `edges`
 * @param {Object<string, {status?: string} | string>} [states] the `nodeStates` of a run
 * @param {string | null} [current] the current node of the run
 * @param {{id?: string, select?: (nodeId: string) => void}} [options] `id` is unique on a page
 */
export function draw(workflow, states = {}, current = null, { id = "graph", select } = {}) {
    const plan = layout(workflow);
    if (plan.nodes.length === 0) {
        return h("p", { class: "nothing" }, texts.empty);
    }
    const facts = factsOf(workflow, states, current);
    const drawing = h(
        "svg",
        {
            class: "graph",
            role: "img",
            "aria-labelledby": `${id}-title ${id}-summary`,
            viewBox: `0 0 ${plan.width} ${plan.height}`,
            width: plan.width,
            height: plan.height,
        },
        h("title", { id: `${id}-title` }, texts.title(shortText(String(workflow.name ?? workflow.id ?? ""), LONG_NAME))),
        h("desc", { id: `${id}-summary` }, summary(plan, facts, current)),
        plan.nodes.filter((node) => node.id === current).map(drawHalo),
        h("g", { class: "edges" }, plan.edges.map((edge) => drawEdge(edge, facts))),
        h("g", { class: "nodes" }, plan.nodes.map((node) => drawNode(node, facts.get(node.id), select))),
    );
    return h(
        "figure",
        { class: "graph-figure" },
        h("div", { class: "graph-scroll", tabindex: 0, role: "group", "aria-labelledby": `${id}-title` }, drawing),
        folded(texts.asList, () => [asList(plan, facts, select)], { class: "graph-list" }),
    );
}

/** Returns the facts of each node by id; `labels` are the labels of its outgoing edges. */
function factsOf(workflow, states, current) {
    const facts = new Map();
    for (const node of workflow.nodes) {
        const status = statusOf(states, node.id);
        facts.set(node.id, {
            name: shortText(String(node.name ?? node.id), LONG_NAME) || String(node.id),
            type: shortText(String(node.typeId ?? ""), LONG_NAME),
            status,
            isCurrent: node.id === current,
            isDisabled: node.disabled === true,
            labels: new Map(),
        });
    }
    for (const edge of workflow.edges ?? []) {
        facts.get(edge.sourceNodeId)?.labels.set(edge.id, labelOf(edge));
    }
    return facts;
}

/** Returns a known status, which is safe as part of a CSS class. */
function statusOf(states, id) {
    const state = Object.hasOwn(states, id) ? states[id] : undefined;
    const status = typeof state === "string" ? state : state?.status;
    return typeof status === "string" && Object.hasOwn(texts.statuses, status) ? status : "pending";
}

function labelOf(edge) {
    const named = [edge.label, edge.sourceOutput].find((text) => typeof text === "string" && text.trim() !== "" && text !== "output");
    if (named !== undefined) {
        return shortText(named, LONG_NAME);
    }
    if (typeof edge.triggerRule === "string" && Object.hasOwn(texts.rules, edge.triggerRule)) {
        return texts.rules[edge.triggerRule];
    }
    return edge.condition ? texts.condition : "";
}

function summary(plan, facts, current) {
    const counted = texts.summary(plan.nodes.length, plan.edges.length);
    const here = facts.get(current);
    return here ? `${counted}. ${texts.now(here.name, texts.statuses[here.status])}` : counted;
}

function drawNode({ id, x, y }, fact, select) {
    const { name, type, status, isCurrent, isDisabled } = fact;
    const words = statusText(fact);
    const shown = `${texts.signs[status]} ${texts.statuses[status]}`;
    const names = ["node", `node-${status}`, isCurrent && "node-current", isDisabled && "node-disabled", select && "node-selectable"];
    const on = select ? { click: () => select(id) } : {};
    const middle = x + NODE_WIDTH / 2;
    return h(
        "g",
        { class: names.filter(Boolean).join(" "), on, key: `node ${id}` },
        h("title", {}, `${name} (${type}): ${words}`),
        h("rect", { class: "node-box", x, y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 9 }),
        h("text", { class: "node-name", x: middle, y: y + 24, "text-anchor": "middle" }, shortText(name, NAME_CHARACTERS)),
        h("text", { class: "node-status", x: middle, y: y + 42, "text-anchor": "middle" }, shown),
    );
}

/** Describes the halo of the current node. It is drawn below the edges, so that it does not cover their ends. */
function drawHalo({ x, y }) {
    return h("rect", { class: "node-halo", x: x - 5, y: y - 5, width: NODE_WIDTH + 10, height: NODE_HEIGHT + 10, rx: 13 });
}

function statusText({ status, isCurrent, isDisabled }) {
    return [texts.statuses[status], isDisabled && texts.disabled, isCurrent && texts.here].filter(Boolean).join(", ");
}

function drawEdge(edge, facts) {
    const { id, from, to, isBack, points } = edge;
    const label = facts.get(from).labels.get(id);
    const isTaken = facts.get(from).status === "completed" && !["pending", "skipped"].includes(facts.get(to).status);
    const names = ["edge", isBack && "edge-back", isTaken && "edge-taken"].filter(Boolean).join(" ");
    const at = labelPoint(points, isBack);
    return h(
        "g",
        { class: names },
        h("path", { class: "edge-line", d: isBack ? backPath(points) : path(points) }),
        h("polygon", { class: "edge-arrow", points: arrow(points) }),
        label && h("title", {}, label),
        label && h("text", { class: "edge-label", x: at.x, y: at.y, "text-anchor": "middle" }, shortText(label, LABEL_CHARACTERS)),
    );
}

/** Returns a downward path of curves that start and end vertically. */
function path(points) {
    const [first, ...others] = points;
    let before = first;
    const parts = [`M ${first.x} ${first.y}`];
    for (const point of others) {
        const middle = (before.y + point.y) / 2;
        parts.push(before.x === point.x ? `L ${point.x} ${point.y}` : `C ${before.x} ${middle} ${point.x} ${middle} ${point.x} ${point.y}`);
        before = point;
    }
    return parts.join(" ");
}

/** Returns a path of straight lines with round corners. */
function backPath(points) {
    const parts = [`M ${points[0].x} ${points[0].y}`];
    for (let index = 1; index < points.length - 1; index += 1) {
        const [before, corner, after] = points.slice(index - 1, index + 2);
        const [start, end] = [towards(corner, before), towards(corner, after)];
        parts.push(`L ${start.x} ${start.y} Q ${corner.x} ${corner.y} ${end.x} ${end.y}`);
    }
    return `${parts.join(" ")} L ${points.at(-1).x} ${points.at(-1).y}`;
}

/** Returns a point near a corner in the direction of another point, at most halfway. */
function towards(corner, other) {
    const length = Math.hypot(other.x - corner.x, other.y - corner.y);
    const share = length === 0 ? 0 : Math.min(CORNER, length / 2) / length;
    return { x: corner.x + (other.x - corner.x) * share, y: corner.y + (other.y - corner.y) * share };
}

function arrow(points) {
    const [before, { x, y }] = points.slice(-2);
    const isLeft = before.y === y;
    const left = [[x, y], [x + 2 * ARROW, y - ARROW], [x + 2 * ARROW, y + ARROW]];
    const down = [[x, y], [x - ARROW, y - 2 * ARROW], [x + ARROW, y - 2 * ARROW]];
    const corners = isLeft ? left : down;
    return corners.map((corner) => corner.join(",")).join(" ");
}

function labelPoint(points, isBack) {
    if (isBack) {
        const [before, corner] = points.slice(points.length > 4 && points[0].x === points[1].x ? 1 : 0);
        return { x: (before.x + corner.x) / 2, y: corner.y + 12 };
    }
    return { x: (points[0].x + points[1].x) / 2, y: (points[0].y + points[1].y) / 2 + 4 };
}

/** Describes the steps as a list, with their status and the next steps. */
function asList(plan, facts, select) {
    const byLayer = [...plan.nodes].sort((a, b) => a.layer - b.layer || a.x - b.x);
    const items = byLayer.map(({ id }) => {
        const fact = facts.get(id);
        const choose = { type: "button", class: "link", on: { click: () => select(id) } };
        const name = select ? h("button", choose, fact.name) : h("strong", {}, fact.name);
        const out = plan.edges.filter((edge) => edge.from === id);
        const lead = (edges, words) => edges.length > 0 && h("p", {}, words, edges.map((edge) => target(edge, facts)).join(", "));
        return h(
            "li",
            { class: `step-${fact.status}`, "aria-current": fact.isCurrent ? "step" : undefined },
            name,
            `: ${statusText(fact)}`,
            lead(out.filter(({ isBack }) => !isBack), texts.then),
            lead(out.filter(({ isBack }) => isBack), texts.back),
            out.length === 0 && h("p", {}, texts.end),
        );
    });
    return h("ol", {}, items);
}

function target(edge, facts) {
    const label = facts.get(edge.from).labels.get(edge.id);
    const { name } = facts.get(edge.to);
    return label ? `${name} (${label})` : name;
}
