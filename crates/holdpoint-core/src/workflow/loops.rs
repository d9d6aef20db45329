//! Finds the loops of a workflow. A back edge leads to a node from which its source is reached; the graph without back
//! edges has no cycles.

use super::{Edge, Node};

/// A back edge with the nodes of its loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The position of the back edge.
    pub edge: usize,
    /// The nodes that are reset when the edge is taken, by position: all nodes that its target leads to.
    pub region: Vec<bool>,
    /// The nodes of the region after the loop, by position: no path leads from them to the source of the edge.
    pub exits: Vec<bool>,
}

/// Returns the loops in the order of the file, and for each node position whether the node is reached. A depth-first
/// search starts at the entry nodes; an edge to a node on the current path is a back edge.
pub(super) fn find(nodes: &[Node], edges: &[Edge], outgoing: &[Vec<usize>]) -> (Vec<Loop>, Vec<bool>) {
    let mut search = BackEdgeSearch {
        edges,
        outgoing,
        seen: vec![false; nodes.len()],
        on_path: vec![false; nodes.len()],
        back: vec![false; edges.len()],
    };
    for entry in (0..nodes.len()).filter(|position| is_entry(*position, edges)) {
        search.walk(entry);
    }
    let back = search.back;
    let found = (0..edges.len()).filter(|edge| back[*edge]).map(|edge| {
        let region =
            reached(vec![edges[edge].target], nodes.len(), |from| forward(from, edges, outgoing, &back));
        // Nodes that reach the source through an inner loop are also inside.
        let before = |to: usize| {
            let others =
                edges.iter().enumerate().filter(move |(at, other)| *at != edge && other.target == to);
            others.map(|(_, other)| other.source).filter(|source| region[*source])
        };
        let inside = reached(vec![edges[edge].source], nodes.len(), before);
        let exits = std::iter::zip(&region, inside).map(|(member, inside)| *member && !inside).collect();
        Loop { edge, region, exits }
    });
    (found.collect(), search.seen)
}

/// Returns whether a node has no incoming edges, except edges from itself.
fn is_entry(position: usize, edges: &[Edge]) -> bool {
    !edges.iter().any(|edge| edge.target == position && edge.source != position)
}

fn forward<'a>(
    from: usize,
    edges: &'a [Edge],
    outgoing: &'a [Vec<usize>],
    back: &'a [bool],
) -> impl Iterator<Item = usize> + 'a {
    outgoing[from].iter().filter(|edge| !back[**edge]).map(|edge| edges[*edge].target)
}

/// Returns the nodes that are reachable from the given nodes, which are included.
pub(super) fn reached<I: Iterator<Item = usize>>(
    mut open: Vec<usize>,
    nodes: usize,
    next: impl Fn(usize) -> I,
) -> Vec<bool> {
    let mut seen = vec![false; nodes];
    for from in &open {
        seen[*from] = true;
    }
    while let Some(position) = open.pop() {
        for target in next(position) {
            if !std::mem::replace(&mut seen[target], true) {
                open.push(target);
            }
        }
    }
    seen
}

struct BackEdgeSearch<'a> {
    edges: &'a [Edge],
    outgoing: &'a [Vec<usize>],
    seen: Vec<bool>,
    on_path: Vec<bool>,
    back: Vec<bool>,
}

impl BackEdgeSearch<'_> {
    /// Searches from an entry node. The search is not recursive, because a long chain of nodes could overflow the
    /// stack.
    fn walk(&mut self, entry: usize) {
        if std::mem::replace(&mut self.seen[entry], true) {
            return;
        }
        self.on_path[entry] = true;
        let mut path = vec![(entry, 0)];
        while let Some((position, next)) = path.last_mut() {
            let Some(edge) = self.outgoing[*position].get(*next).copied() else {
                self.on_path[*position] = false;
                path.pop();
                continue;
            };
            *next += 1;
            let target = self.edges[edge].target;
            if self.on_path[target] {
                self.back[edge] = true;
            } else if !std::mem::replace(&mut self.seen[target], true) {
                self.on_path[target] = true;
                path.push((target, 0));
            }
        }
    }
}
