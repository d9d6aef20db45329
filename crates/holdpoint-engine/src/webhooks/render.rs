//! What a delivery says. The engine knows when and to whom; only the server knows how events look on the wire.

use std::pin::Pin;

use holdpoint_core::RunRef;

use crate::error::Error;

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// What the event is called on the wire.
    pub event_type: String,
    pub body: Vec<u8>,
    /// Headers that name the trace of the run.
    pub trace: Vec<(String, String)>,
}

/// Nothing means that there is nothing to say any more.
pub type Rendering<'a> = Pin<Box<dyn Future<Output = Result<Option<Rendered>, Error>> + Send + 'a>>;

/// Makes bodies of deliveries. The same for every attempt.
pub trait Render: Send + Sync + 'static {
    /// The event with the number `seq` in the log of a run.
    fn event<'a>(&'a self, of: &'a RunRef, seq: u64) -> Rendering<'a>;

    /// The question that the event with the number `seq` asks, for the address that its run was started with.
    fn callback<'a>(&'a self, of: &'a RunRef, seq: u64) -> Rendering<'a>;
}
