//! Interrupts of child runs, seen from the run that waits for them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use holdpoint_core::{Interrupt, InterruptId, NodeId, Refusal, Run, RunId, RunRef, TenantId};

use super::Interrupts;
use crate::error::Error;

/// The place of an interrupt: its run and its node.
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

impl Interrupts<'_> {
    /// Returns the open interrupts of a run, oldest first, then those of the child runs that it waits for and of the
    /// runs below them, as this state of the run records them. A child run may have closed one since then.
    pub async fn of_family(self, tenant: &TenantId, run: &Arc<Run>) -> Result<Vec<OpenInterrupt>, Error> {
        if run.finished() {
            return Ok(Vec::new());
        }
        let own = run.open_interrupts().map(|asked| OpenInterrupt { run: run.clone(), id: asked.id });
        let mut open: Vec<_> = own.collect();
        let mut runs = BTreeMap::new();
        for (child, recorded) in run.child_interrupts() {
            let run = match runs.entry(recorded.run(&child.run).clone()) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(unknown) => {
                    let of = RunRef { tenant: tenant.clone(), run: unknown.key().clone() };
                    Arc::clone(unknown.insert(self.engine.runs().get(&of).await?))
                }
            };
            open.push(OpenInterrupt { run, id: recorded.id });
        }
        Ok(open)
    }

    /// Returns the root of a run: the first of its ancestors, or the run itself.
    pub async fn root_of(self, tenant: &TenantId, run: &Arc<Run>) -> Result<Arc<Run>, Error> {
        let mut root = run.clone();
        while let Some(parent) = root.started.as_ref().and_then(|started| started.parent.as_ref()) {
            let first = parent.above.first().map_or(&parent.run, |ancestor| &ancestor.run);
            let of = RunRef { tenant: tenant.clone(), run: first.clone() };
            root = self.engine.runs().get(&of).await?;
        }
        Ok(root)
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
        let run = self.engine.runs().get(of).await?;
        let below: Vec<_> = run.child_interrupts().filter(|(child, _)| child.node == *node).collect();
        let own = run.open_interrupts().filter(|asked| asked.node == *node && !run.finished());
        let own = own.map(|asked| run.interrupt_name(asked.id));
        let names = below.iter().map(|(child, open)| format!("{}:{}", open.run(&child.run), open.id));
        let mut names: Vec<_> = own.chain(names).collect();
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
        let parent = run.started.as_ref().and_then(|started| started.parent.as_ref());
        let leads_here = parent.is_some_and(|parent| {
            parent.path().iter().any(|ancestor| ancestor.run == of.run && ancestor.node == *node)
        });
        let asked = run.interrupt_named(name).filter(|_| leads_here);
        Ok(asked.map(|asked| AnswerAddress {
            of: below,
            node: asked.node.clone(),
            interrupt: Some(name.to_owned()),
        }))
    }
}
