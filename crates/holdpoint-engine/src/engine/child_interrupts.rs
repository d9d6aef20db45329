//! Interrupts of child runs, seen from the run that waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::{Ancestor, Interrupt, InterruptId, NodeId, Refusal, Run, RunId, RunRef, TenantId};
use tokio::time::Instant;

use super::{Engine, Interrupts};
use crate::error::Error;

/// The run and the node that an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerAddress {
    /// The run of the interrupt.
    pub of: RunRef,
    /// The node that opened the interrupt.
    pub node: NodeId,
    /// The id of the interrupt, as the API shows it. `None` for the only open interrupt of the node.
    pub interrupt: Option<String>,
}

/// An interrupt with its run.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenInterrupt {
    /// The run of the interrupt.
    pub run: Arc<Run>,
    /// The id of the interrupt in its run.
    pub id: InterruptId,
}

impl OpenInterrupt {
    /// Returns the interrupt. `None` if the run does not have it.
    pub fn interrupt(&self) -> Option<&Interrupt> {
        self.run.interrupt(self.id)
    }

    /// Returns whether the interrupt is open in this state of its run.
    pub fn is_open(&self) -> bool {
        !self.run.finished() && self.interrupt().is_some_and(Interrupt::is_open)
    }
}

/// The wait of a reader for child runs that are executing while another interrupt is open, so that the reader gets the
/// interrupts of all of them together.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiblingsWait {
    until: Option<Instant>,
}

impl SiblingsWait {
    /// The longest wait. It begins when an interrupt is open and no other work of the run is left.
    pub const MAX: Duration = Duration::from_secs(2);

    /// Returns the instant until which the reader of a run with an open interrupt waits, or None if it does not wait.
    pub fn deadline(&mut self, run: &Run) -> Option<Instant> {
        if !run.has_executing_child() {
            self.reset();
            return None;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + Self::MAX);
        (Instant::now() < until).then_some(until)
    }

    /// Resets the wait after the run has continued, so that the next wait has its full length.
    pub fn reset(&mut self) {
        self.until = None;
    }
}

impl Interrupts<'_> {
    /// Returns the open interrupts of a run, oldest first, then those of the child runs that it waits for and of the
    /// runs below them, as this state of the run records them. A child run may have closed one since then.
    pub async fn of_family(self, tenant: &TenantId, run: &Arc<Run>) -> Result<Vec<OpenInterrupt>, Error> {
        if run.finished() {
            return Ok(Vec::new());
        }
        let own = run.open_interrupts().map(|asked| OpenInterrupt { run: run.clone(), id: asked.id });
        let mut open: Vec<_> = own.collect();
        let below: Vec<_> =
            run.child_interrupts().map(|(child, one)| (one.run(&child.run), one.id)).collect();
        let mut runs: BTreeMap<&RunId, Option<Arc<Run>>> =
            below.iter().map(|(run, _)| (*run, None)).collect();
        let of = |run: &&RunId| RunRef { tenant: tenant.clone(), run: RunId::clone(run) };
        let found = self.engine.runs().get_each(&runs.keys().map(of).collect::<Vec<_>>()).await?;
        runs.values_mut().zip(found).for_each(|(place, run)| *place = Some(run));
        open.extend(below.into_iter().filter_map(|(run, id)| {
            let run = runs.get(run)?.clone()?;
            Some(OpenInterrupt { run, id })
        }));
        Ok(open)
    }

    /// Returns the address of the interrupt of a child run that an answer to a node is for: the named one, or the only
    /// open one. Returns `None` if the answer is for an interrupt of the node itself. Refuses an answer without a name
    /// if several are open.
    pub async fn of_child(
        self,
        of: &RunRef,
        node: &NodeId,
        named: Option<&str>,
    ) -> Result<Option<AnswerAddress>, Error> {
        if let Some(name) = named {
            return self.named_of_child(of, node, name).await;
        }
        let run = self.engine.events().cached_run(of).await?;
        // Most nodes wait for an interrupt of their own, in a run without child runs: no further read is needed.
        if run.children.is_empty() && run.open_interrupts().any(|asked| asked.node == *node) {
            return Ok(None);
        }
        let run = self.engine.runs().get(of).await?;
        let below: Vec<_> = run.child_interrupts().filter(|(child, _)| child.node == *node).collect();
        let own = run.open_interrupts().filter(|asked| asked.node == *node && !run.finished());
        let own = own.map(|asked| run.interrupt_name(asked.id));
        let mut names: Vec<_> = own.chain(below.iter().map(|(child, open)| open.name(&child.run))).collect();
        match (below.as_slice(), names.len()) {
            ([], _) => Ok(None),
            ([(child, open)], 1) => {
                let of = RunRef { run: open.run(&child.run).clone(), ..of.clone() };
                Ok(Some(AnswerAddress { of, node: open.node.clone(), interrupt: names.pop() }))
            }
            _ => Err(Refusal::InterruptAmbiguous(names).into()),
        }
    }

    async fn named_of_child(
        self,
        of: &RunRef,
        node: &NodeId,
        name: &str,
    ) -> Result<Option<AnswerAddress>, Error> {
        let below = name.rsplit_once(':').and_then(|(run, _)| RunId::parse(run).ok());
        let Some(below) = below.filter(|below| *below != of.run) else { return Ok(None) };
        let below = RunRef { run: below, ..of.clone() };
        let run = match self.engine.runs().get(&below).await {
            Err(Error::NotFound(_)) => return Ok(None),
            found => found?,
        };
        // The child run of `of` through which the path leads.
        let path: Vec<&str> = std::iter::once(run.id.as_str()).chain(run.ancestor_ids()).collect();
        let child = path.windows(2).find(|pair| pair[1] == of.run.as_str()).map(|pair| pair[0]);
        let Some(child) = child else { return Ok(None) };
        let above = self.engine.runs().get(of).await?;
        let leads_here =
            above.children.iter().any(|known| known.run.as_str() == child && known.node == *node);
        let asked = run.interrupt_named(name).filter(|_| leads_here);
        Ok(asked.map(|asked| AnswerAddress {
            of: below,
            node: asked.node.clone(),
            interrupt: Some(name.to_owned()),
        }))
    }
}

impl Engine {
    /// Returns the ancestors of a run, beginning with the root. Reads those that earlier versions did not store.
    pub(super) async fn ancestors(&self, tenant: &TenantId, run: &Run) -> Result<Vec<Ancestor>, Error> {
        let mut path = Vec::new();
        let mut next = run.parent().cloned();
        while let Some(parent) = next {
            if let Some(mut above) = parent.path() {
                above.append(&mut path);
                return Ok(above);
            }
            path.insert(0, parent.as_ancestor());
            let of = RunRef { tenant: tenant.clone(), run: parent.run };
            next = self.runs().get(&of).await?.parent().cloned();
        }
        Ok(path)
    }
}
