//! Derives names: keys of interrupts from the run, the node and a count that continues over visits, and ids of
//! artifacts from the run and the node.

use super::Run;
use crate::event::{ForkMode, RunParameters};
use crate::interrupt::Interrupt;
use crate::limits::INTERRUPT_KEY_CHARS_MAX;
use crate::{InterruptId, NodeId, RunId};

impl Run {
    /// Returns the key of the interrupt of a node with this count. Node ids have any length and keys do not, so the
    /// position of the node replaces an id that is too long.
    pub fn interrupt_key(&self, position: usize, count: u32) -> String {
        let [named, placed] = self.key_beginnings(position);
        let key = format!("{named}{count}");
        if key.chars().count() <= INTERRUPT_KEY_CHARS_MAX { key } else { format!("{placed}{count}") }
    }

    /// Returns the id of the artifact of a node.
    pub fn artifact_id(&self, node: &NodeId) -> String {
        format!("{}:{node}", self.naming_run())
    }

    /// Returns the id of an interrupt outside of its run.
    pub fn interrupt_name(&self, id: InterruptId) -> String {
        format!("{}:{id}", self.naming_run())
    }

    /// Returns the interrupt with this name. A replay also accepts the name that begins with its own id, as lists show
    /// it.
    pub fn interrupt_named(&self, name: &str) -> Option<&Interrupt> {
        let (run, id) = name.rsplit_once(':')?;
        let is_own = [self.naming_run(), &self.id].iter().any(|known| known.as_str() == run);
        let mut interrupts = self.interrupts.iter().map(AsRef::as_ref);
        interrupts.find(|one| is_own && one.id.to_string() == id)
    }

    /// Returns the run id that derived names begin with. A replay uses the id of its source, so that both have the same
    /// names.
    fn naming_run(&self) -> &RunId {
        self.started.as_ref().map_or(&self.id, |started| started.artifact_owner(&self.id))
    }

    /// Returns the id of a conversation, which is unique across runs except for the replays of this run.
    pub(crate) fn conversation_name(&self, name: impl std::fmt::Display) -> String {
        format!("{}:{name}", self.naming_run())
    }

    /// Returns the first count that no interrupt of the node has used.
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

    /// Returns the run id that interrupt keys begin with. A fork uses the id of the first run of its lineage, so that
    /// it does not repeat the interrupts that it copied.
    fn key_owner(&self) -> &RunId {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        fork.map_or(&self.id, |fork| &fork.origin)
    }
}

impl RunParameters {
    /// Returns the run id that the artifact ids of `run` begin with: the id of the run itself, or for a replay that of
    /// its source, so that both have the same ids.
    pub fn artifact_owner<'a>(&'a self, run: &'a RunId) -> &'a RunId {
        match &self.fork {
            Some(fork) if fork.mode == ForkMode::Replay => fork.artifacts.as_ref().unwrap_or(&fork.origin),
            Some(_) | None => run,
        }
    }
}
