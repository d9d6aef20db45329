//! Holdpoint as a library: runs that pause for people, survive crashes and go on exactly once.
//!
//! Open an [`Engine`], register a workflow, start a run; whoever answers calls [`Engine::execute`] with the same
//! command that every protocol of the server ends in. `examples/embed.rs` is a whole program.

mod advance;
mod asking;
mod bus;
mod clock;
mod committer;
mod context;
mod engine;
mod error;
mod feed;
mod mailbox;
mod measures;
mod nodes;
pub mod outgoing;
mod peers;
mod registry;
mod run_cache;
mod store;
mod trace;
mod worker;

pub use bus::Subscription;
pub use clock::Clock;
pub use committer::{Counters, Fault};
pub use context::{ChannelOptions, Context, EffectContext, Stop};
pub use engine::{Checked, Done, Engine, ForkRequest, Once, Options, Overlay, Respond, StartOptions};
pub use error::Error;
pub use feed::{Committed, Listener};
pub use holdpoint_core as core;
pub use mailbox::{DispatchCursor, Mailbox};
pub use measures::{Distribution, Measures};
pub use nodes::{Node, Outputs, PureNode};
pub use store::events::Recorded;
pub use store::keys::ApiKey;
pub use store::pending::{Pending, PendingCursor};
pub use store::receipts::Receipt;
pub use store::runs::{RunFilter, RunSummary};
pub use store::workflows::Registered;
pub use store::{Error as StoreError, Location, ceiling};
pub use trace::{SpanName, cause};
pub use worker::Worker;
