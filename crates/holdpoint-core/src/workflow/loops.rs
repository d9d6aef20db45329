//! Ways back: edges that lead to a node from which they are reached. Found once, when a workflow is parsed. What
//! remains without them has no cycles.

use super::{Edge, Node};

/// An edge that leads back.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The edge, by position.
    pub edge: usize,
    /// By position of the node: what begins anew when the edge is taken, which is all that its target leads to.
    pub region: Vec<bool>,
    /// The part of the region that is left for good when the loop is: nothing in it leads to the edge's source.
    pub exits: Vec<bool>,
}

/// The ways back, in the order of the file. Searched from the nodes without incoming edges, depth first: an edge to a
/// node on the way from there leads back. Also, by position, whether a node is reached at all.
pub(super) fn find(nodes: &[Node], edges: &[Edge], outgoing: &[Vec<usize>]) -> (Vec<Loop>, Vec<bool>) {
    let mut search = Search {
        edges,
        outgoing,
        seen: vec![false; nodes.len()],
        on_the_way: vec![false; nodes.len()],
        back: vec![false; edges.len()],
    };
    for entry in (0..nodes.len()).filter(|position| is_entry(*position, edges)) {
        search.walk(entry);
    }
    let back = search.back;
    let found = (0..edges.len()).filter(|edge| back[*edge]).map(|edge| {
        let region =
            reached(vec![edges[edge].target], nodes.len(), |from| forward(from, edges, outgoing, &back));
        // Inside are also those who come to the source by way of a loop inside this one.
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

/// A node that only leads to itself still has a beginning.
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

/// Everything that can be reached from some nodes, themselves included.
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

struct Search<'a> {
    edges: &'a [Edge],
    outgoing: &'a [Vec<usize>],
    seen: Vec<bool>,
    on_the_way: Vec<bool>,
    back: Vec<bool>,
}

impl Search<'_> {
    /// With a stack of its own: a line of nodes may be longer than ours is deep.
    fn walk(&mut self, entry: usize) {
        if std::mem::replace(&mut self.seen[entry], true) {
            return;
        }
        self.on_the_way[entry] = true;
        let mut way = vec![(entry, 0)];
        while let Some((position, next)) = way.last_mut() {
            let Some(edge) = self.outgoing[*position].get(*next).copied() else {
                self.on_the_way[*position] = false;
                way.pop();
                continue;
            };
            *next += 1;
            let target = self.edges[edge].target;
            if self.on_the_way[target] {
                self.back[edge] = true;
            } else if !std::mem::replace(&mut self.seen[target], true) {
                self.on_the_way[target] = true;
                way.push((target, 0));
            }
        }
    }
}
