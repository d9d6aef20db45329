//! Ids of traces and spans. They are derived from the ids of a run and its nodes, so every process computes the same
//! ones and none is stored.

use std::fmt;

use holdpoint_core::{NodeId, Run, RunId, TenantId};
use sha2::{Digest, Sha256};

/// The ids of a trace and a span, as in a W3C `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace id.
    pub trace: [u8; 16],
    /// The span id.
    pub span: [u8; 8],
}

impl SpanContext {
    /// Parses a `traceparent`. Returns None for an invalid one, because a trace is optional.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let fits = version.len() == 2 && version != "ff" && flags.len() == 2;
        let more = version == "00" && parts.next().is_some();
        if !fits || more || !is_hex(version) || !is_hex(flags) {
            return None;
        }
        let name = Self { trace: bytes(trace)?, span: bytes(span)? };
        (name.trace != [0; 16] && name.span != [0; 8]).then_some(name)
    }

    /// Returns the span of a run. Without a trace of the caller the run starts a new trace.
    pub fn of_run(tenant: &TenantId, run: &Run) -> Self {
        let caller = caller_span(run);
        let trace =
            caller.map_or_else(|| digest(&["trace", tenant.as_str(), run.id.as_str()]), |name| name.trace);
        Self { trace, span: digest(&["run", tenant.as_str(), run.id.as_str()]) }
    }

    /// Returns the span of the source of `fork`. A fork keeps the trace of its source.
    pub fn of_source(tenant: &TenantId, source: &RunId, fork: &Run) -> Self {
        let trace = caller_span(fork)
            .map_or_else(|| digest(&["trace", tenant.as_str(), source.as_str()]), |name| name.trace);
        Self { trace, span: digest(&["run", tenant.as_str(), source.as_str()]) }
    }

    /// Returns the span of one visit of a node.
    pub fn of_node(self, run: &RunId, node: &NodeId, visit: u32) -> Self {
        self.with(&["node", run.as_str(), node.as_str(), &visit.to_string()])
    }

    /// Returns the span of one visit of a node, computed from the run.
    pub fn of_visit(tenant: &TenantId, run: &Run, node: &NodeId, visit: u32) -> Self {
        Self::of_run(tenant, run).of_node(&run.id, node, visit)
    }

    /// Returns another span of the same trace.
    #[must_use]
    pub fn with(self, words: &[&str]) -> Self {
        Self { trace: self.trace, span: digest(words) }
    }
}

/// Returns the headers of a request that is part of a run: `traceparent`, and the caller's `tracestate`.
pub fn trace_headers(span: SpanContext, run: &Run) -> Vec<(String, String)> {
    let state = run.started.as_ref().and_then(|started| started.trace_state.clone());
    let state = state.map(|state| ("tracestate".to_owned(), state));
    std::iter::once(("traceparent".to_owned(), span.to_string())).chain(state).collect()
}

/// Returns a `tracestate` as W3C allows it: printable ASCII, at most 512 characters. Returns None otherwise.
pub fn read_trace_state(text: &str) -> Option<String> {
    let text = text.trim();
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (is_printable && (1..=TRACE_STATE_CHARS_MAX).contains(&text.len())).then(|| text.to_owned())
}

/// The length that every participant of a trace must propagate.
const TRACE_STATE_CHARS_MAX: usize = 512;

/// Returns the span of the caller that started the run; for a fork, that of its source.
fn caller_span(run: &Run) -> Option<SpanContext> {
    run.started.as_ref().and_then(|started| SpanContext::parse(started.trace.as_deref()?))
}

/// Returns the span of the caller that caused the run. A fork has none: the caller started only its source.
pub fn causing_span(run: &Run) -> Option<SpanContext> {
    caller_span(run).filter(|_| run.started.as_ref().is_some_and(|started| started.fork.is_none()))
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-01")
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !is_hex(text) {
        return None;
    }
    let mut bytes = [0; N];
    for (position, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * position..2 * position + 2], 16).ok()?;
    }
    Some(bytes)
}

fn digest<const N: usize>(words: &[&str]) -> [u8; N] {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update(word.as_bytes());
        hasher.update([0]);
    }
    let mut bytes = [0; N];
    bytes.copy_from_slice(&hasher.finalize()[..N]);
    // An id of all zeros is invalid.
    bytes[N - 1] |= 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_traceparent_is_formatted_unchanged() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(SpanContext::parse(text).map(|name| name.to_string()).as_deref(), Some(text));
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c8031-b7ad6b7169203331-01",
            "00-éaf7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(SpanContext::parse(text), None, "{text}");
        }
        // Later versions can have more fields.
        assert!(SpanContext::parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
    }
}
