//! The properties of an agent that front ends ask for before they use it.

use std::collections::BTreeSet;

use holdpoint_core::permission::{Behaviour, PermissionSet};
use holdpoint_core::{TenantId, WorkflowId};
use holdpoint_engine::{Engine, Error};

use crate::setup::{NODE, Setup, runtime};

/// The properties of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTraits {
    /// True if calls of its tools can wait for an approval.
    pub asks: bool,
    /// True if an approver can edit the arguments of such a call.
    pub offers_edits: bool,
    /// True if readers get the reasoning of the model.
    pub shows_reasoning: bool,
    /// The media types of attachments that the model accepts.
    pub media_types: BTreeSet<String>,
    /// True if it starts other runs.
    pub delegates: bool,
}

impl AgentTraits {
    /// Returns the properties of the newest revision of an agent. None if its definition is not usable now, for example
    /// because a connection is missing.
    pub(crate) async fn of(
        engine: &Engine,
        tenant: &TenantId,
        workflow: &WorkflowId,
    ) -> Result<Option<Self>, Error> {
        let Some(latest) = engine.workflows().latest(tenant, workflow).await? else { return Ok(None) };
        let Some(node) = latest.nodes.first() else { return Ok(None) };
        let key = (tenant.clone(), workflow.clone(), latest.revision, NODE.to_owned());
        let setup = runtime(engine).prepare(key, &node.config).ok();
        Ok(setup.map(|setup| Self::of_setup(&setup)))
    }

    fn of_setup(setup: &Setup) -> Self {
        let (definition, own) = (&setup.definition, can_ask(&setup.definition.permissions));
        let (mut asks, mut offers_edits) = (false, false);
        for rules in setup.tool_rules() {
            let asks_here = own || rules.is_some_and(|rules| rules.can_ask());
            let approval = rules.map_or_else(
                || definition.approval.clone(),
                |rules| rules.join(&definition.approval).into_owned(),
            );
            asks |= asks_here;
            offers_edits |= asks_here && approval.offers_edits();
        }
        Self {
            asks,
            offers_edits,
            shows_reasoning: definition.shows_reasoning,
            media_types: setup.model.media_types(),
            delegates: setup.delegates(),
        }
    }
}

/// Returns true if the rules ask about a call of some tool.
pub(crate) fn can_ask(permissions: &PermissionSet) -> bool {
    permissions.default_behaviour() == Behaviour::Ask
        || permissions.rules().iter().any(|rule| rule.behaviour() == Behaviour::Ask)
}
