//! The interface to the code that renders the bodies of deliveries. The server implements it.

use std::pin::Pin;

use holdpoint_core::RunRef;

use crate::error::Error;

/// The content of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryContent {
    /// Name of the event on the wire.
    pub event_type: String,
    /// The request body.
    pub body: Vec<u8>,
    /// Trace headers of the run.
    pub trace: Vec<(String, String)>,
}

/// The future of a rendered delivery. Its value is None if the event no longer exists.
pub type RenderFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<DeliveryContent>, Error>> + Send + 'a>>;

/// Renders deliveries. The body must be the same for every attempt.
pub trait Render: Send + Sync + 'static {
    /// Renders the event with the sequence `seq` of a run.
    fn event<'a>(&'a self, of: &'a RunRef, seq: u64) -> RenderFuture<'a>;

    /// Renders the interrupt of the event with the sequence `seq`, for the callback address of the run.
    fn callback<'a>(&'a self, of: &'a RunRef, seq: u64) -> RenderFuture<'a>;
}
