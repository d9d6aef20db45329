//! From what a commit did to a run to the spans that end with it. Pure: a span is only sent once it is over, with the
//! times that are recorded, so pauses of days and restarts in between make no difference.

use holdpoint_core::{
    End, Event, Interrupt, InterruptId, NodeId, Resolution, Run, RunError, TenantId, Timestamp,
};
use holdpoint_engine::{Committed, SpanName, caller};

use super::otlp::{KeyValue, Link, Span, Status};
use crate::auth::hex;

pub(crate) fn spans(committed: &Committed) -> Vec<Span> {
    let trace = Trace::of(committed);
    let first = committed.run.seq - committed.events.len() as u64;
    let mut spans = Vec::new();
    for (event, seq) in committed.events.iter().zip(first..) {
        spans.push(trace.append(event, seq));
        match event {
            Event::NodeCompleted { node, .. } => spans.extend(trace.node(node, seq, None)),
            Event::NodeFailed { node, error } => spans.extend(trace.node(node, seq, Some(error))),
            Event::NodeRetried { node, attempt, error, .. } => {
                spans.push(trace.attempt(node, attempt.saturating_sub(1), Some(error)));
            }
            Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                spans.extend(committed.run.interrupt(*id).map(|interrupt| trace.interrupt(interrupt)));
            }
            Event::StepRecorded { node, name, took_ms, .. } => {
                spans.push(trace.activity(node, name, took_ms.unwrap_or(0)));
            }
            Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                spans.extend(committed.run.open_interrupts().map(|interrupt| trace.interrupt(interrupt)));
                spans.push(trace.run());
            }
            _ => {}
        }
    }
    spans
}

/// A run and the trace it belongs to.
struct Trace<'a> {
    tenant: &'a TenantId,
    run: &'a Run,
    root: SpanName,
    events: &'a [Event],
    at: Timestamp,
}

impl<'a> Trace<'a> {
    fn of(committed: &'a Committed) -> Self {
        let root = SpanName::of_run(&committed.of.tenant, &committed.run);
        let (tenant, run) = (&committed.of.tenant, &*committed.run);
        Self { tenant, run, root, events: &committed.events, at: committed.at }
    }

    fn span(&self, name: SpanName, parent: Option<SpanName>, title: String, from: Timestamp) -> Span {
        let attributes = vec![
            KeyValue::text("openwop.run_id", self.run.id.as_str()),
            KeyValue::text("openwop.workflow_id", self.run.workflow.id.as_str()),
            KeyValue::text("openwop.protocol_version", "1.0"),
            KeyValue::text("openwop.tenant_id", self.tenant.as_str()),
        ];
        Span {
            trace_id: name.trace.to_vec(),
            span_id: name.span.to_vec(),
            parent_span_id: parent.map(|parent| parent.span.to_vec()).unwrap_or_default(),
            name: title,
            kind: Span::INTERNAL,
            start_time_unix_nano: nanoseconds(from),
            end_time_unix_nano: nanoseconds(self.at),
            attributes,
            links: Vec::new(),
            status: None,
        }
    }

    fn run(&self) -> Span {
        let parent = caller(self.run);
        let mut span = self.span(self.root, parent, "openwop.run".to_owned(), self.run.started_at);
        if let Some(started) = &self.run.started {
            if let Some(scope) = &started.scope {
                span.attributes.push(KeyValue::text("openwop.scope_id", scope));
            }
            if let Some(parent) = &started.parent {
                span.attributes.push(KeyValue::text("openwop.parent.run_id", parent.run.as_str()));
                span.attributes.push(KeyValue::text("openwop.parent.workflow_id", parent.workflow.as_str()));
                span.attributes.push(KeyValue::text("openwop.parent.node_id", parent.node.as_str()));
            }
            if let Some(fork) = &started.fork {
                self.forked(fork, &mut span);
            }
        }
        if let Some(End::Failed { error, .. }) = &self.run.end {
            span.status = Some(failed(error));
        }
        for event in self.events {
            if let Event::CapBreached { cap, limit, observed, .. } = event {
                let kind = serde_json::to_value(cap).ok();
                let kind = kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
                span.attributes.push(KeyValue::text("openwop.cap_kind", kind));
                span.attributes.push(KeyValue::number("openwop.cap_limit", *limit));
                span.attributes.push(KeyValue::number("openwop.cap_observed", *observed));
            }
        }
        span
    }

    /// A fork is no child of its source: somebody's request caused it. The two are linked.
    fn forked(&self, fork: &holdpoint_core::Fork, span: &mut Span) {
        let mode = match fork.mode {
            holdpoint_core::ForkMode::Replay => "replay",
            holdpoint_core::ForkMode::Branch => "branch",
        };
        let diverged = self.events.iter().any(|event| matches!(event, Event::ReplayDiverged { .. }));
        span.attributes.push(KeyValue::text("openwop.replay.source_run_id", fork.source.as_str()));
        span.attributes.push(KeyValue::number("openwop.replay.from_seq", fork.from_seq));
        span.attributes.push(KeyValue::text("openwop.replay.mode", mode));
        span.attributes.push(KeyValue::flag("openwop.replay.diverged", diverged));
        let source = SpanName::of_source(self.tenant, &fork.source, self.run);
        span.links.push(Link { trace_id: source.trace.to_vec(), span_id: source.span.to_vec() });
    }

    fn node_name(&self, node: &NodeId) -> SpanName {
        let visit = self.run.node_state(node).map_or(0, |state| state.visit);
        self.root.of_node(&self.run.id, node, visit)
    }

    fn node_type(&self, node: &NodeId) -> &str {
        self.run.workflow.node(node).map_or("", |node| node.type_id.as_str())
    }

    fn node(&self, node: &NodeId, seq: u64, error: Option<&RunError>) -> Vec<Span> {
        let name = self.node_name(node);
        let state = self.run.node_state(node);
        let from = state.and_then(|state| state.started_at).unwrap_or(self.at);
        let attempt = state.map_or(0, |state| state.retries);
        let mut span =
            self.span(name, Some(self.root), format!("openwop.node.{}", self.node_type(node)), from);
        self.describe(&mut span, node, attempt);
        span.attributes.push(KeyValue::number("openwop.event_seq", seq));
        span.status = error.map(failed);
        vec![self.attempt(node, attempt, error), span]
    }

    fn attempt(&self, node: &NodeId, attempt: u32, error: Option<&RunError>) -> Span {
        let parent = self.node_name(node);
        let name = parent.with(&["attempt", self.run.id.as_str(), node.as_str(), &attempt.to_string()]);
        let from = self.run.node_state(node).and_then(|state| state.started_at).unwrap_or(self.at);
        let title = format!("openwop.node.{}.attempt", self.node_type(node));
        let mut span = self.span(name, Some(parent), title, from);
        self.describe(&mut span, node, attempt);
        span.status = error.map(failed);
        span
    }

    fn describe(&self, span: &mut Span, node: &NodeId, attempt: u32) {
        span.attributes.push(KeyValue::text("openwop.node_id", node.as_str()));
        span.attributes.push(KeyValue::text("openwop.node_type", self.node_type(node)));
        span.attributes.push(KeyValue::number("openwop.node_attempt", u64::from(attempt)));
    }

    fn append(&self, event: &Event, seq: u64) -> Span {
        let name = self.root.with(&["event", self.run.id.as_str(), &seq.to_string()]);
        let mut span = self.span(name, Some(self.root), "openwop.event.append".to_owned(), self.at);
        span.attributes.push(KeyValue::text("openwop.event_type", event.name()));
        span.attributes.push(KeyValue::number("openwop.event_seq", seq));
        span
    }

    /// Open from the question to its answer, or to the end of its run.
    fn interrupt(&self, interrupt: &Interrupt) -> Span {
        let InterruptId(number) = interrupt.id;
        let name = self.root.with(&["interrupt", self.run.id.as_str(), &number.to_string()]);
        let parent = Some(self.node_name(&interrupt.node));
        let mut span = self.span(name, parent, "openwop.interrupt".to_owned(), interrupt.requested_at);
        let status = match interrupt.resolution {
            Some(Resolution::Answered { .. }) => "resolved",
            Some(Resolution::TimedOut { .. }) => "timeout",
            None => "cancelled",
        };
        let before = self.run.interrupts.iter().filter(|other| other.node == interrupt.node);
        let count = before.take_while(|other| other.id != interrupt.id).count();
        span.attributes.push(KeyValue::text("openwop.node_id", interrupt.node.as_str()));
        span.attributes.push(KeyValue::text("openwop.interrupt_kind", interrupt.kind.as_str()));
        span.attributes
            .push(KeyValue::text("openwop.interrupt_id", format!("{}:{}", self.run.id, interrupt.id)));
        span.attributes.push(KeyValue::number("openwop.interrupt_count", count as u64));
        span.attributes.push(KeyValue::text("status", status));
        span
    }

    fn activity(&self, node: &NodeId, step: &str, took_ms: u64) -> Span {
        let parent = self.node_name(node);
        let name = parent.with(&["activity", self.run.id.as_str(), node.as_str(), step]);
        let from = Timestamp(self.at.0.saturating_sub_unsigned(took_ms));
        let title = format!("openwop.activity.{}", self.node_type(node));
        let mut span = self.span(name, Some(parent), title, from);
        span.attributes.push(KeyValue::text("openwop.node_id", node.as_str()));
        span.attributes.push(KeyValue::text("openwop.node_type", self.node_type(node)));
        span
    }
}

/// The code only: what a node says of its failure may repeat what it was given.
fn failed(error: &RunError) -> Status {
    Status { message: error.code.clone(), code: Status::ERROR }
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}

/// A span outside of OTLP: names and instants as readers of JSON expect them.
pub(super) fn described(span: &Span) -> serde_json::Value {
    let instant =
        |nanoseconds: u64| Timestamp(i64::try_from(nanoseconds / 1_000_000).unwrap_or(0)).to_string();
    let parent = Some(&span.parent_span_id).filter(|id| !id.is_empty());
    let attributes: serde_json::Map<String, serde_json::Value> =
        span.attributes.iter().map(|pair| (pair.key.clone(), pair.as_json())).collect();
    serde_json::json!({
        "name": span.name, "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id),
        "parentSpanId": parent.map(|id| hex(id)),
        "startedAt": instant(span.start_time_unix_nano), "endedAt": instant(span.end_time_unix_nano),
        "attributes": attributes,
    })
}
