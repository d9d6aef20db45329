//! Names that nobody chose. Keys of interrupts: run, node and a count that goes on over visits. Artifacts: run and node.

use super::Run;
use crate::event::{ForkMode, Started};
use crate::interrupt::Interrupt;
use crate::limits::INTERRUPT_KEY_CHARS_MAX;
use crate::{InterruptId, NodeId, RunId};

impl Run {
    /// The key of a node's interrupt with this count. Tools generate node ids of any length; a key has one, so a long
    /// id becomes its place.
    pub fn interrupt_key(&self, position: usize, count: u32) -> String {
        let [named, placed] = self.key_beginnings(position);
        let key = format!("{named}{count}");
        if key.chars().count() <= INTERRUPT_KEY_CHARS_MAX { key } else { format!("{placed}{count}") }
    }

    /// The artifact that a node's outputs are.
    pub fn artifact_id(&self, node: &NodeId) -> String {
        format!("{}:{node}", self.told_as())
    }

    /// What an interrupt is called outside of its run.
    pub fn interrupt_name(&self, id: InterruptId) -> String {
        format!("{}:{id}", self.told_as())
    }

    /// Returns the interrupt with this name. A replay also accepts the name that begins with its own id, as lists show
    /// it.
    pub fn interrupt_named(&self, name: &str) -> Option<&Interrupt> {
        let (run, id) = name.rsplit_once(':')?;
        let is_own = [self.told_as(), &self.id].iter().any(|known| known.as_str() == run);
        let mut interrupts = self.interrupts.iter().map(AsRef::as_ref);
        interrupts.find(|one| is_own && one.id.to_string() == id)
    }

    /// A replay names things as the run does that it tells again, so that both tell the same.
    fn told_as(&self) -> &RunId {
        self.started.as_ref().map_or(&self.id, |started| started.artifact_owner(&self.id))
    }

    /// What a conversation is called outside of its run: like nothing in any other run, but for the replays of this one.
    pub(crate) fn conversation_name(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.told_as())
    }

    /// The first count that no interrupt of the node has used.
    pub(super) fn unused_key_count(&self, position: usize) -> u32 {
        let (node, beginnings) = (&self.workflow.nodes[position].id, self.key_beginnings(position));
        let asked = self.interrupts.iter().filter(|interrupt| interrupt.node == *node);
        let count = |key: &str| {
            beginnings.iter().find_map(|beginning| key.strip_prefix(beginning.as_str())?.parse::<u32>().ok())
        };
        asked.filter_map(|interrupt| count(&interrupt.key)).max().map_or(0, |last| last.saturating_add(1))
    }

    fn key_beginnings(&self, position: usize) -> [String; 2] {
        let run = self.key_owner();
        [format!("{run}:{}:", self.workflow.nodes[position].id), format!("{run}:#{position}:")]
    }

    /// A fork's keys carry the name of the first run of its line, so that what was asked there is not asked again.
    fn key_owner(&self) -> &RunId {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        fork.map_or(&self.id, |fork| &fork.origin)
    }
}

impl Started {
    /// Whose name the artifacts of `run` carry that was started like this: its own, or of a replay that of the run
    /// which it tells again, so that both tell the same.
    pub fn artifact_owner<'a>(&'a self, run: &'a RunId) -> &'a RunId {
        match &self.fork {
            Some(fork) if fork.mode == ForkMode::Replay => fork.artifacts.as_ref().unwrap_or(&fork.origin),
            Some(_) | None => run,
        }
    }
}
