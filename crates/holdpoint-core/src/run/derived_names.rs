//! Names that are derived from a run id: keys of interrupts, which also contain the node and a count that continues
//! over its visits, and the public ids of interrupts, artifacts and conversations.

use std::cell::LazyCell;

use super::Run;
use crate::event::{ForkMode, RunParameters};
use crate::interrupt::Interrupt;
use crate::limits::INTERRUPT_KEY_CHARS_MAX;
use crate::{InterruptId, NodeId, RunId};

impl Run {
    /// Returns the key of the interrupt of a node with this count. A key has a maximum length: the position of the node
    /// replaces a node id that is too long for it.
    pub fn interrupt_key(&self, position: usize, count: u32) -> String {
        let (run, node) = (self.key_owner(), &self.workflow.nodes[position].id);
        let key = format!("{run}:{node}:{count}");
        if key.chars().count() <= INTERRUPT_KEY_CHARS_MAX {
            key
        } else {
            format!("{run}:#{position}:{count}")
        }
    }

    /// Returns the id of the artifact of a node.
    pub fn artifact_id(&self, node: &NodeId) -> String {
        format!("{}:{node}", self.naming_run())
    }

    /// Returns the public id of an interrupt, which is unique across runs except for the replays of this run.
    pub fn interrupt_name(&self, id: InterruptId) -> String {
        format!("{}:{id}", self.naming_run())
    }

    /// Returns the interrupt with this public id. A replay also accepts an id that begins with its own run id, because
    /// lists show that form.
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

    /// Returns the count after the highest one that an interrupt of the node has used.
    pub(super) fn unused_key_count(&self, position: usize) -> u32 {
        let (run, node) = (self.key_owner(), &self.workflow.nodes[position].id);
        let prefixes = LazyCell::new(|| [format!("{run}:{node}:"), format!("{run}:#{position}:")]);
        let asked = self.interrupts.iter().filter(|interrupt| interrupt.node == *node);
        let count = |key: &str| {
            prefixes.iter().find_map(|prefix| key.strip_prefix(prefix.as_str())?.parse::<u32>().ok())
        };
        asked.filter_map(|interrupt| count(&interrupt.key)).max().map_or(0, |last| last.saturating_add(1))
    }

    /// Returns the run id that interrupt keys begin with. A fork uses the id of the first run in its chain of forks, so
    /// that its nodes find the interrupts that it copied instead of opening them again.
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
