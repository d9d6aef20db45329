//! The decision core of Holdpoint: the state of a run, its commands, and the events that commands produce.
//!
//! A run is the fold of its events. [`decide`] turns a [`Command`] into events or a [`Refusal`],
//! [`Run::apply`] folds an event, [`react`] returns the obligations of an event for the engine.
//! The crate does no I/O: it reads no clock, draws no random numbers, never waits and opens no files.
//!
//! # Layout
//! - `command`, `event`, `refusal`: the inputs and results of a decision. The JSON of an [`Event`] is stored.
//! - `decide`: the decision of each command and of each outcome of a node; `decide.rs` calls the function of a command
//! - `run`: the fold ([`Run::apply`]), and queries on it, such as the next node to execute
//! - `react`: [`Obligation`]s of an event, such as timers and activations
//! - `interrupt`: requests, kinds, assignees, quorum, governance and the evaluation of answers
//! - [`workflow`]: parsing and validation of definitions, edges, conditions, expressions, scheduling of nodes
//! - [`agent`]: messages, tool calls, tickets and the next step of an agent
//! - [`permission`]: rules that allow, ask about or deny tool calls
//! - [`mailbox`]: transitions of a dispatch
//! - [`trigger`]: schedules, event filters and input mappings of triggers
//! - [`webhook`]: filters, retries and the circuit breaker
//! - `schema`: JSON Schema with a limit on work
//! - `principal`, `names`, `equality`: identities, valid names, equality of JSON values
//!
//! A new event or command does not compile until every match handles it: no match in this crate has a `_` arm over our
//! enums.

#![warn(missing_docs)]

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
pub mod trigger;
pub mod webhook;
pub mod workflow;

pub use command::{
    ChannelWrite, ChildRunRequest, Command, Completion, Effect, NodeOutcome, StartRequest, TextChunk,
};
pub use decide::{check_reason, decide, decide_and_apply};
pub use event::{
    Ancestor, Cap, ChildInterrupt, ChildInterruptChanges, ChildResult, ClosedChildInterrupt, Descendant,
    Drain, Event, Fork, ForkMode, Owner, Parent, Reducer, RunError, RunParameters, TIMED_OUT, TriggerCause,
};
pub use holdpoint_ids::{
    BadId, EventReception, EventTransport, HoldStatus, InputMode, InterruptId, MissedPolicy, NodeId,
    NodeStatusName, OverlapPolicy, RequestSource, RunId, RunRef, RunRequestOrigin, StrictValue, TenantId,
    Timestamp, Transport, TriggerSourceName, Via, ViaType, WorkflowId, canonical, digest, hex, limits,
    parse_strict,
};
pub use interrupt::{
    ASSIGNEE_MEMBERS, AUTH_REQUIRED, AgentDecision, Answer, Assignees, AudienceRule, BadRequest,
    CompiledSchemas, ESCALATION_THRESHOLD_DEFAULT, ExternalEvent, GateOutputs, GrantUse, Interrupt,
    InterruptRequest, Kind, OPERATOR_APPROVAL, Resolution, SideQuestion, SideQuestionAnswer, UndecidedAnswer,
    Vote, as_answer, covered_node, escalation_threshold, find_named_assignees, find_unrestricted_audiences,
    is_host_name, repeats_answer, with_ignored,
};
pub use names::{BadName, check_new_entry, parse_new_name};
pub use principal::Principal;
pub use react::{Obligation, Timer, react};
pub use refusal::Refusal;
pub use run::{
    ChildRunState, Conversation, EdgeOutcome, NodeState, NodeStatus, NodeWork, OutageDelay, Pause, Run,
    RunEnd, Status, UnseenChanges, UnusableGrant,
};
pub use schema::{check_schema, compile_checker};
pub use workflow::Workflow;
