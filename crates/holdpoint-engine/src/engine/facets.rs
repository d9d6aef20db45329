//! The facets of the engine. Each one groups the operations on one subject, and borrows the engine.

use super::Engine;

macro_rules! facets {
    ($($(#[$doc:meta])* $accessor:ident -> $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name<'e> {
                pub(crate) engine: &'e Engine,
            }
        )*

        impl Engine {
            $(
                $(#[$doc])*
                pub fn $accessor(&self) -> $name<'_> {
                    $name { engine: self }
                }
            )*
        }
    };
}

facets! {
    /// Runs: starts, commands, forks and reads.
    runs -> Runs;
    /// Interrupts that wait for an answer.
    interrupts -> Interrupts;
    /// Events: the logs of runs, and events that external systems send to runs.
    events -> Events;
    /// Workflow definitions.
    workflows -> Workflows;
    /// The principals that definitions name as approvers.
    approvers -> Approvers;
    /// Grants: permissions for effects, which result from approvals.
    grants -> Grants;
    /// Holds: interrupts that callers create without a workflow.
    holds -> Holds;
    /// Webhook subscriptions.
    webhooks -> Webhooks;
    /// Deliveries of webhooks and callbacks.
    deliveries -> Deliveries;
    /// API keys and tenants.
    keys -> Keys;
    /// Browser sessions.
    sessions -> Sessions;
    /// The secrets that sign links.
    secrets -> LinkSecrets;
    /// Receipts of requests that are executed at most once.
    receipts -> Receipts;
    /// The quotas of tenants and their usage.
    limits -> Limits;
    /// Threads: sequences of runs and their messages.
    threads -> Threads;
    /// Triggers: stored subscriptions that start runs at times or for events.
    triggers -> Triggers;
    /// Dispatches: the operations of operators, and checks.
    dispatches -> Dispatches;
    /// References to state outside of the database, for extensions.
    handles -> Handles;
}
