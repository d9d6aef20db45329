//! The HTTP contract of Holdpoint: every request, response and event document as a type, by resource.
//!
//! The types have no logic and do no I/O. The server builds its routes and the OpenAPI document from them, and clients
//! send and read them. A doc comment of a type or a field is its description in the OpenAPI document.
//!
//! # Conventions
//! - Members are camel case on the wire. A member of a response without a value is left out, unless its schema allows null.
//! - An `Option` in a request may be left out or null, unless the field has `not_null`.
//! - Types with `deny_unknown_fields` reject unknown members. The types of the older OpenWOP routes and of AG-UI ignore
//!   them, because clients of several versions exist.
//!
//! # Layout
//! - One module per resource: [`runs`], [`interrupts`], [`holds`], [`webhooks`], [`agents`] and so on
//! - [`basics`]: types that several resources share; [`errors`]: the error envelope and its details
//! - [`payloads`]: payloads of the events of the log; [`events`]: their envelope, pages and streams
//! - [`snapshot`]: the snapshot of a run

#![warn(missing_docs)]

pub mod admin;
pub mod agents;
pub mod agui;
pub mod arrivals;
pub mod artifacts;
pub mod basics;
pub mod chat;
pub mod decisions;
mod deliveries;
pub mod discovery;
pub mod errors;
pub mod events;
pub mod grants;
pub mod holds;
pub mod interrupts;
pub mod keys;
pub mod links;
pub mod mailbox;
mod members;
pub mod payloads;
pub mod pending;
pub mod runs;
pub mod sessions;
mod side_questions;
pub mod snapshot;
mod threads;
pub mod triggers;
pub mod webhooks;
pub mod workflows;

pub use basics::{EmptyBody, Instant, Object, Page};
pub use errors::{Error, ErrorCode, ErrorDetails};
pub use holdpoint_ids as ids;
pub use members::Members;
