//! The interface to the code that renders the headers and bodies of deliveries. The server implements it with the names
//! of its protocol.

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

/// The facts about a delivery that a protocol puts into headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEnvelope<'a> {
    /// Name of the event on the wire.
    pub event_type: &'a str,
    /// The subscription. None for a callback of a run.
    pub webhook: Option<&'a str>,
    /// None for callbacks of runs that earlier versions started: they have no secret.
    pub signature: Option<DeliverySignature>,
    /// The id and the deduplication key of a durable delivery.
    pub durable: Option<(&'a str, &'a str)>,
}

/// The signature of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliverySignature {
    /// The signed time in seconds.
    pub timestamp: i64,
    /// The signature with the current secret.
    pub current: String,
    /// The signature with the next secret, while the secret is rotated.
    pub next: Option<String>,
}

/// The future of a rendered delivery. Its value is None if the event no longer exists.
pub type RenderFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<DeliveryContent>, Error>> + Send + 'a>>;

/// Renders deliveries. The body must be the same for every attempt.
pub trait Render: Send + Sync + 'static {
    /// Returns the headers of a delivery, besides its content type and its trace headers.
    fn headers(&self, envelope: &DeliveryEnvelope<'_>) -> Vec<(String, String)>;

    /// Renders the event with the sequence `seq` of a run.
    fn event<'a>(&'a self, of: &'a RunRef, seq: u64) -> RenderFuture<'a>;

    /// Renders the interrupt of the event with the sequence `seq`, for the callback address of the run.
    fn callback<'a>(&'a self, of: &'a RunRef, seq: u64) -> RenderFuture<'a>;
}
