//! Names of traces and spans. They are computed from what a run and its nodes are called, so that any node of a
//! cluster, today or after a restart, comes to the same ones and nothing has to be kept.

use std::fmt;

use holdpoint_core::{NodeId, Run, RunId, TenantId};
use sha2::{Digest, Sha256};

/// A span in its trace, as W3C's `traceparent` names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanName {
    pub trace: [u8; 16],
    pub span: [u8; 8],
}

impl SpanName {
    /// Reads a `traceparent`. Anything but a well-formed one is nothing: a trace is a courtesy, not a condition.
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

    /// The span of a whole run. Without a caller's trace it begins one of its own.
    pub fn of_run(tenant: &TenantId, run: &Run) -> Self {
        let caller = caller(run);
        let trace =
            caller.map_or_else(|| digest(&["trace", tenant.as_str(), run.id.as_str()]), |name| name.trace);
        Self { trace, span: digest(&["run", tenant.as_str(), run.id.as_str()]) }
    }

    /// The span of the run that `fork` comes from. A fork keeps the trace of its source.
    pub fn of_source(tenant: &TenantId, source: &RunId, fork: &Run) -> Self {
        let trace = caller(fork)
            .map_or_else(|| digest(&["trace", tenant.as_str(), source.as_str()]), |name| name.trace);
        Self { trace, span: digest(&["run", tenant.as_str(), source.as_str()]) }
    }

    /// The span of one visit of a node.
    pub fn of_node(self, run: &RunId, node: &NodeId, visit: u32) -> Self {
        self.with(&["node", run.as_str(), node.as_str(), &visit.to_string()])
    }

    /// The same, of a run whose own span is not at hand.
    pub fn of_visit(tenant: &TenantId, run: &Run, node: &NodeId, visit: u32) -> Self {
        Self::of_run(tenant, run).of_node(&run.id, node, visit)
    }

    /// Any other span of the same trace.
    #[must_use]
    pub fn with(self, words: &[&str]) -> Self {
        Self { trace: self.trace, span: digest(words) }
    }
}

/// Returns the headers of a request that is part of a run: `traceparent`, and the caller's `tracestate`.
pub fn trace_headers(span: SpanName, run: &Run) -> Vec<(String, String)> {
    let state = run.started.as_ref().and_then(|started| started.trace_state.clone());
    let state = state.map(|state| ("tracestate".to_owned(), state));
    std::iter::once(("traceparent".to_owned(), span.to_string())).chain(state).collect()
}

/// Returns a `tracestate` as W3C allows it: printable ASCII, at most 512 characters. Anything else is dropped.
pub fn read_trace_state(text: &str) -> Option<String> {
    let text = text.trim();
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (is_printable && (1..=TRACE_STATE_CHARS_MAX).contains(&text.len())).then(|| text.to_owned())
}

/// The length that every participant of a trace must pass on.
const TRACE_STATE_CHARS_MAX: usize = 512;

/// What the caller of the run was doing; of a fork, that of its source.
fn caller(run: &Run) -> Option<SpanName> {
    run.started.as_ref().and_then(|started| SpanName::parse(started.trace.as_deref()?))
}

/// The span that caused the run, where somebody else's did. Who called for the source did not call for its forks.
pub fn cause(run: &Run) -> Option<SpanName> {
    caller(run).filter(|_| run.started.as_ref().is_some_and(|started| started.fork.is_none()))
}

impl fmt::Display for SpanName {
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
    // All zeros would mean that there is none.
    bytes[N - 1] |= 1;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_it_is_written() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(SpanName::parse(text).map(|name| name.to_string()).as_deref(), Some(text));
    }

    #[test]
    fn what_is_no_traceparent_is_nothing() {
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
            assert_eq!(SpanName::parse(text), None, "{text}");
        }
        // A later version may say more.
        assert!(SpanName::parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
    }
}
