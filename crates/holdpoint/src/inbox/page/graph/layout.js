//! Positions the nodes of a workflow in layers from top to bottom, by the longest path to each. Back edges are marked
//! and do not affect the layers.

import { arrange } from "./arrange.js";

export const NODE_WIDTH = 184;
export const NODE_HEIGHT = 56;
const LAYER_GAP = 52;
const MARGIN = 20;
const BACK_GAP = 14;
const BACK_LANES_MAX = 12;
/** The maximum number of waypoints of all long edges. Further long edges are drawn straight. */
const PASSES_MAX = 3_000;

/**
 * @param {{nodes: {id: string}[], edges: {id: string, sourceNodeId: string, targetNodeId: string}[]}} workflow
 * @returns {{width: number, height: number, nodes: {id: string, layer: number, x: number, y: number}[],
 *   edges: {id: string, from: string, to: string, isBack: boolean, points: {x: number, y: number}[]}[]}}
 *   `x` and `y` of a node are its upper left corner
 */
export function layout(workflow) {
    const ids = unique((workflow?.nodes ?? []).map((node) => node.id));
    const known = new Set(ids);
    const edges = (workflow?.edges ?? [])
        .filter(({ sourceNodeId, targetNodeId }) => known.has(sourceNodeId) && known.has(targetNodeId))
        .map(({ id, sourceNodeId, targetNodeId }) => ({ id, from: sourceNodeId, to: targetNodeId, isBack: false }));
    markBackEdges(ids, edges);
    const layerOf = layers(ids, edges);
    const { rows, links } = withPasses(ids, edges, layerOf);
    const centers = arrange(rows, links);
    return positioned(ids, edges, layerOf, centers);
}

function unique(ids) {
    return Array.from(new Set(ids));
}

/**
 * Marks the edges to nodes that a depth-first search has not finished. Not recursive: a path can have a thousand
 * nodes.
 */
function markBackEdges(ids, edges) {
    const out = grouped(edges, "from");
    const hasIncoming = new Set(edges.filter(({ from, to }) => from !== to).map(({ to }) => to));
    const state = new Map();
    const begin = [...ids.filter((id) => !hasIncoming.has(id)), ...ids];
    for (const start of begin) {
        if (state.has(start)) {
            continue;
        }
        const stack = [{ id: start, next: 0 }];
        state.set(start, "open");
        while (stack.length > 0) {
            const top = stack.at(-1);
            const edge = out.get(top.id)?.[top.next];
            top.next += 1;
            if (!edge) {
                state.set(top.id, "done");
                stack.pop();
            } else if (state.get(edge.to) === "open") {
                edge.isBack = true;
            } else if (!state.has(edge.to)) {
                state.set(edge.to, "open");
                stack.push({ id: edge.to, next: 0 });
            }
        }
    }
}

function layers(ids, edges) {
    const forward = edges.filter(({ isBack }) => !isBack);
    const out = grouped(forward, "from");
    const waiting = new Map(ids.map((id) => [id, 0]));
    forward.forEach(({ to }) => waiting.set(to, waiting.get(to) + 1));
    const layerOf = new Map(ids.map((id) => [id, 0]));
    const ready = ids.filter((id) => waiting.get(id) === 0);
    for (let at = 0; at < ready.length; at += 1) {
        for (const { to } of out.get(ready[at]) ?? []) {
            layerOf.set(to, Math.max(layerOf.get(to), layerOf.get(ready[at]) + 1));
            waiting.set(to, waiting.get(to) - 1);
            if (waiting.get(to) === 0) {
                ready.push(to);
            }
        }
    }
    return layerOf;
}

/** Returns the rows with waypoints for long edges, so that no edge crosses a node. */
function withPasses(ids, edges, layerOf) {
    const rows = [];
    for (const layer of layerOf.values()) {
        while (rows.length <= layer) {
            rows.push([]);
        }
    }
    ids.forEach((id) => rows[layerOf.get(id)].push({ id, width: NODE_WIDTH }));
    const links = [];
    let left = PASSES_MAX;
    for (const edge of edges.filter(({ isBack }) => !isBack)) {
        const [first, last] = [layerOf.get(edge.from), layerOf.get(edge.to)];
        const isRouted = left >= last - first - 1;
        edge.passes = [];
        let before = edge.from;
        for (let layer = first + 1; isRouted && layer < last; layer += 1) {
            const id = Symbol(`${edge.id} at ${layer}`);
            rows[layer].push({ id, width: 12 });
            edge.passes.push({ id, layer });
            links.push({ from: before, to: id, layer: layer - 1 });
            before = id;
            left -= 1;
        }
        if (isRouted) {
            links.push({ from: before, to: edge.to, layer: last - 1 });
        }
    }
    return { rows, links };
}

function positioned(ids, edges, layerOf, centers) {
    const passes = edges.flatMap((edge) => edge.passes ?? []);
    const lefts = [...ids.map((id) => centers.get(id) - NODE_WIDTH / 2), ...passes.map(({ id }) => centers.get(id))];
    const least = lefts.reduce((low, x) => Math.min(low, x), Infinity);
    const center = (id) => centers.get(id) - least + MARGIN;
    const top = (layer) => MARGIN + layer * (NODE_HEIGHT + LAYER_GAP);
    const nodes = ids.map((id) => ({ id, layer: layerOf.get(id), x: center(id) - NODE_WIDTH / 2, y: top(layerOf.get(id)) }));
    const rights = [...nodes.map(({ x }) => x + NODE_WIDTH), ...passes.map(({ id }) => center(id))];
    const right = rights.reduce((most, x) => Math.max(most, x), 0);
    const edgesOfRows = rightmost(nodes);
    let lanes = 0;
    const drawn = edges.map((edge) => {
        const { id, from, to, isBack } = edge;
        if (isBack) {
            lanes += 1;
            const lane = right + BACK_GAP * (1 + ((lanes - 1) % BACK_LANES_MAX));
            return { id, from, to, isBack, points: backPoints(center, top, layerOf, edge, lane, edgesOfRows) };
        }
        const inside = edge.passes.flatMap((pass) => {
            const x = center(pass.id);
            return [{ x, y: top(pass.layer) }, { x, y: top(pass.layer) + NODE_HEIGHT }];
        });
        const start = { x: center(from), y: top(layerOf.get(from)) + NODE_HEIGHT };
        return { id, from, to, isBack, points: [start, ...inside, { x: center(to), y: top(layerOf.get(to)) }] };
    });
    const height = nodes.reduce((most, { y }) => Math.max(most, y + NODE_HEIGHT), 0) + MARGIN;
    const width = right + BACK_GAP * Math.min(lanes, BACK_LANES_MAX) + MARGIN;
    return { width: Math.ceil(width), height: Math.ceil(height), nodes, edges: drawn };
}

/** Returns the ids of the rightmost nodes of the layers. */
function rightmost(nodes) {
    const found = new Map();
    for (const node of nodes) {
        if (!(found.get(node.layer)?.x >= node.x)) {
            found.set(node.layer, node);
        }
    }
    return new Set(Array.from(found.values(), ({ id }) => id));
}

/**
 * Returns the points of a back edge: out of the source, up in its own lane, into the target. It uses the right sides
 * of the nodes. If other nodes are there, it uses the gap below the source and the gap above the target.
 */
function backPoints(center, top, layerOf, { from, to }, lane, outermost) {
    const [right, aside] = [NODE_WIDTH / 2, NODE_WIDTH * 0.3];
    const [source, target] = [top(layerOf.get(from)), top(layerOf.get(to))];
    const low = outermost.has(from) ? source + NODE_HEIGHT * 0.66 : source + NODE_HEIGHT + BACK_GAP;
    const high = outermost.has(to) ? target + NODE_HEIGHT * 0.33 : target - BACK_GAP;
    const out = outermost.has(from)
        ? [{ x: center(from) + right, y: low }]
        : [{ x: center(from) + aside, y: source + NODE_HEIGHT }, { x: center(from) + aside, y: low }];
    const into = outermost.has(to)
        ? [{ x: center(to) + right, y: high }]
        : [{ x: center(to) + aside, y: high }, { x: center(to) + aside, y: target }];
    return [...out, { x: lane, y: low }, { x: lane, y: high }, ...into];
}

function grouped(edges, end) {
    const groups = new Map();
    for (const edge of edges) {
        if (!groups.has(edge[end])) {
            groups.set(edge[end], []);
        }
        groups.get(edge[end]).push(edge);
    }
    return groups;
}
