//! The pure heart of Holdpoint: what a run is, which commands it accepts and which events they become.
//!
//! A run is the fold of its events. [`decide`] turns a [`Command`] into events or a [`Refusal`],
//! [`Run::apply`] folds an event, [`react`] names what an event obliges the shell to do later.
//! Nothing here reads a clock, draws a random number, waits or touches a file.

pub mod agent;
mod command;
mod decide;
mod equality;
mod event;
mod interrupt;
pub mod mailbox;
mod names;
pub mod permission;
mod principal;
mod react;
mod refusal;
mod run;
mod schema;
pub mod webhook;
pub mod workflow;

pub use command::{ChannelWrite, Chunk, Command, Completion, Dispatch, Effect, Outcome, Start};
pub use decide::{check_reason, decide};
pub use event::{
    Cap, ChildResult, Drain, Event, Fork, ForkMode, Owner, Parent, Reducer, RunError, Started, TIMED_OUT,
};
pub use holdpoint_ids::{
    BadId, EventReception, HoldStatus, InputMode, InterruptId, NodeId, NodeStatusName, RunId, RunRef,
    StrictValue, TenantId, Timestamp, Via, ViaType, WorkflowId, canonical, digest, hex, limits, parse_strict,
};
pub use interrupt::{
    AUTH_REQUIRED, Answer, Ask, Assignees, AudienceRule, BadRequest, Compiled, Decision,
    ESCALATION_THRESHOLD_DEFAULT, ExternalEvent, GateOutputs, GrantUse, Heard, Interrupt, Kind,
    OPERATOR_APPROVAL, PEOPLE, Reply, Request, Resolution, Vote, as_answer, covered_node,
    escalation_threshold, find_named_people, find_unrestricted_audiences, is_host_name, repeats_answer,
    with_ignored,
};
pub use names::{BadName, check_new_entry, parse_new_name};
pub use principal::Principal;
pub use react::{Obligation, Timer, react};
pub use refusal::Refusal;
pub use run::{
    Child, Conversation, Delay, End, NodeState, NodeStatus, Pause, Run, Status, UnusableGrant, Verdict, Work,
};
pub use schema::{check_schema, checker};
pub use workflow::Workflow;
