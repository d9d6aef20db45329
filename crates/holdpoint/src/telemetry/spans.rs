//! Returns the spans that end with the events of a run. Pure functions: a span is only sent once it has ended, with
//! recorded times, so that long waits and restarts have no effect on it.

use holdpoint_api::artifacts::BundleSpan;
use holdpoint_core::{
    Cap, Event, Fork, ForkMode, Interrupt, InterruptId, NodeId, Resolution, Run, RunEnd, RunError, RunRef,
    TenantId, Timestamp, hex,
};
use holdpoint_engine::{RunCommit, SpanContext, causing_span};

use super::otlp::{self, Link, Span, SpanKind, Status, StatusCode};

#[cfg(test)]
mod tests;

/// Returns the spans that end with a commit.
pub(crate) fn spans(committed: &RunCommit) -> Vec<Span> {
    let new_run = || Run::new(committed.run.id.clone(), committed.run.workflow.clone());
    let from = committed.from.as_ref().map_or_else(new_run, |run| Run::clone(run));
    let mut builder = SpanBuilder::new(&committed.of, from);
    let over = builder.run.end.as_ref().map(RunEnd::at);
    if let Some(at) = over.filter(|_| committed.events.is_empty()) {
        // A copy of a whole run. The copied events have spans under the source.
        return vec![builder.run_span(at.max(committed.at))];
    }
    committed.events.iter().flat_map(|event| builder.apply(event, committed.at)).collect()
}

/// Applies the events of a run and builds the spans that end with them.
pub(crate) struct SpanBuilder {
    tenant: TenantId,
    run: Run,
    /// The last cap that the run reached: its kind, its limit and the observed value.
    cap: Option<(Cap, u64, u64)>,
}

impl SpanBuilder {
    /// Returns a builder. `run` is the state before the first event.
    pub(crate) fn new(of: &RunRef, run: Run) -> Self {
        Self { tenant: of.tenant.clone(), run, cap: None }
    }

    /// Returns the state after the last event.
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Applies an event and returns the spans that end with it.
    pub(crate) fn apply(&mut self, event: &Event, at: Timestamp) -> Vec<Span> {
        let seq = self.run.seq;
        if let Event::CapBreached { cap, limit, observed, .. } = event {
            self.cap = Some((*cap, *limit, *observed));
        }
        self.run.apply(event, at);
        let mut spans = vec![self.append(event, seq, at)];
        match event {
            Event::NodeCompleted { node, .. } => {
                spans.extend([self.attempt(node, seq, None, at), self.node(node, seq, None, at)]);
            }
            Event::NodeFailed { node, error } => {
                spans.extend([
                    self.attempt(node, seq, Some(error), at),
                    self.node(node, seq, Some(error), at),
                ]);
            }
            Event::NodeRetried { node, error, .. } => spans.push(self.attempt(node, seq, Some(error), at)),
            Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                spans.extend(self.run.interrupt(*id).map(|interrupt| self.interrupt(interrupt, at)));
            }
            // Without a duration the step was not executed, but copied from another run.
            Event::StepRecorded { node, name, took_ms: Some(ms), .. } => {
                spans.push(self.activity(node, name, *ms, at));
            }
            Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                spans.extend(self.unfinished_spans(seq, at));
                spans.push(self.run_span(at));
            }
            _ => {}
        }
        spans
    }

    /// Returns the spans of work and interrupts that were open when the run ended.
    fn unfinished_spans(&self, seq: u64, at: Timestamp) -> Vec<Span> {
        let mut spans: Vec<Span> =
            self.run.open_interrupts().map(|interrupt| self.interrupt(interrupt, at)).collect();
        for (node, state) in self.run.workflow.nodes.iter().zip(&self.run.nodes) {
            if state.status.is_active() {
                spans.extend((!state.retrying).then(|| self.attempt(&node.id, seq, None, at)));
                spans.push(self.node(&node.id, seq, None, at));
            }
        }
        spans
    }

    fn root(&self) -> SpanContext {
        SpanContext::of_run(&self.tenant, &self.run)
    }

    fn span(
        &self,
        name: SpanContext,
        parent: Option<SpanContext>,
        title: String,
        from: Timestamp,
        to: Timestamp,
    ) -> Span {
        // Copied work began before the fork existed, and has a span under the source.
        let from =
            self.run.forked_at().filter(|forked| *forked <= to).map_or(from, |forked| forked.max(from));
        let workflow = &self.run.workflow;
        let mut attributes = vec![
            otlp::text("openwop.run_id", self.run.id.as_str()),
            otlp::text("openwop.workflow_id", workflow.id.as_str()),
            otlp::text("openwop.protocol_version", "1.0"),
            otlp::text("openwop.tenant_id", self.tenant.as_str()),
            otlp::flag("openwop.pii_present", workflow.is_sensitive()),
        ];
        let class = workflow.compliance_class.as_deref();
        attributes.extend(class.map(|class| otlp::text("openwop.compliance_class", class)));
        let scope = self.run.started.as_ref().and_then(|started| started.scope.as_deref());
        attributes.extend(scope.map(|scope| otlp::text("openwop.scope_id", scope)));
        Span {
            trace_id: name.trace.to_vec(),
            span_id: name.span.to_vec(),
            parent_span_id: parent.map(|parent| parent.span.to_vec()).unwrap_or_default(),
            name: title,
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: nanoseconds(from),
            end_time_unix_nano: nanoseconds(to),
            attributes,
            ..Span::default()
        }
    }

    fn run_span(&self, at: Timestamp) -> Span {
        let (parent, title) = (causing_span(&self.run), "openwop.run".to_owned());
        let mut span = self.span(self.root(), parent, title, self.run.started_at, at);
        if let Some(started) = &self.run.started {
            if let Some(parent) = &started.parent {
                span.attributes.push(otlp::text("openwop.parent.run_id", parent.run.as_str()));
                span.attributes.push(otlp::text("openwop.parent.workflow_id", parent.workflow.as_str()));
                span.attributes.push(otlp::text("openwop.parent.node_id", parent.node.as_str()));
            }
            if let Some(fork) = &started.fork {
                self.add_fork(fork, &mut span);
            }
        }
        if let Some(RunEnd::Failed { error, .. }) = &self.run.end {
            span.status = Some(failed(error));
        }
        self.add_cap(&mut span);
        span
    }

    /// Adds the source of a fork as a link. The source is not the parent: a request of a caller caused the fork.
    fn add_fork(&self, fork: &Fork, span: &mut Span) {
        let mode = match fork.mode {
            ForkMode::Replay => "replay",
            ForkMode::Branch => "branch",
        };
        span.attributes.push(otlp::text("openwop.replay.source_run_id", fork.source.as_str()));
        span.attributes.push(otlp::number("openwop.replay.from_seq", fork.from_seq));
        span.attributes.push(otlp::text("openwop.replay.mode", mode));
        span.attributes.push(otlp::flag("openwop.replay.diverged", self.run.diverged));
        let source = SpanContext::of_source(&self.tenant, &fork.source, &self.run);
        span.links.push(Link {
            trace_id: source.trace.to_vec(),
            span_id: source.span.to_vec(),
            ..Link::default()
        });
    }

    fn add_cap(&self, span: &mut Span) {
        let Some((cap, limit, observed)) = self.cap else { return };
        let kind = match cap {
            Cap::NodeExecutions => "node-executions",
            Cap::RunDuration => "run-duration",
            Cap::LoopIterations => "loop-iterations",
        };
        span.attributes.push(otlp::text("openwop.cap_kind", kind));
        span.attributes.push(otlp::number("openwop.cap_limit", limit));
        span.attributes.push(otlp::number("openwop.cap_observed", observed));
    }

    fn visit(&self, node: &NodeId) -> u32 {
        self.run.node_state(node).map_or(1, |state| state.visit)
    }

    fn node_context(&self, node: &NodeId) -> SpanContext {
        self.root().of_node(&self.run.id, node, self.visit(node))
    }

    /// Returns the context of a span inside a visit of a node.
    fn context_within(&self, node: &NodeId, what: &str, which: &str) -> SpanContext {
        let visit = self.visit(node).to_string();
        self.root().with(&[what, self.run.id.as_str(), node.as_str(), &visit, which])
    }

    fn node_type(&self, node: &NodeId) -> &str {
        self.run.workflow.node(node).map_or("", |node| node.type_id.as_str())
    }

    fn node(&self, node: &NodeId, seq: u64, error: Option<&RunError>, at: Timestamp) -> Span {
        let state = self.run.node_state(node);
        let from = state.and_then(|state| state.started_at).unwrap_or(at);
        let title = format!("openwop.node.{}", self.node_type(node));
        let mut span = self.span(self.node_context(node), Some(self.root()), title, from, at);
        self.describe(&mut span, node, state.map_or(0, |state| state.retries), seq);
        span.status = error.map(failed);
        span
    }

    /// Returns the span of the attempt that ends with an event.
    fn attempt(&self, node: &NodeId, seq: u64, error: Option<&RunError>, at: Timestamp) -> Span {
        let state = self.run.node_state(node);
        let from = state.and_then(|state| state.tried_at).unwrap_or(at);
        // If the failure is retried, the count already includes the next attempt.
        let attempt = state.map_or(0, |state| state.retries - u32::from(state.retrying));
        let name = self.context_within(node, "attempt", &attempt.to_string());
        let title = format!("openwop.node.{}.attempt", self.node_type(node));
        let mut span = self.span(name, Some(self.node_context(node)), title, from, at);
        self.describe(&mut span, node, attempt, seq);
        span.status = error.map(failed);
        span
    }

    fn describe(&self, span: &mut Span, node: &NodeId, attempt: u32, seq: u64) {
        span.attributes.push(otlp::text("openwop.node_id", node.as_str()));
        span.attributes.push(otlp::text("openwop.node_type", self.node_type(node)));
        span.attributes.push(otlp::number("openwop.node_attempt", u64::from(attempt)));
        span.attributes.push(otlp::number("openwop.event_seq", seq));
    }

    fn append(&self, event: &Event, seq: u64, at: Timestamp) -> Span {
        let name = self.root().with(&["event", self.run.id.as_str(), &seq.to_string()]);
        let mut span = self.span(name, Some(self.root()), "openwop.event.append".to_owned(), at, at);
        span.attributes.push(otlp::text("openwop.event_type", event.name()));
        span.attributes.push(otlp::number("openwop.event_seq", seq));
        if let Event::CapBreached { .. } = event {
            self.add_cap(&mut span);
        }
        span
    }

    /// Returns the span of an interrupt, from its request to its end or the end of its run.
    fn interrupt(&self, interrupt: &Interrupt, at: Timestamp) -> Span {
        let InterruptId(number) = interrupt.id;
        let name = self.root().with(&["interrupt", self.run.id.as_str(), &number.to_string()]);
        let parent = Some(self.node_context(&interrupt.node));
        let title = "openwop.interrupt".to_owned();
        let mut span = self.span(name, parent, title, interrupt.requested_at, at);
        let status = match interrupt.resolution {
            Some(Resolution::Answered { .. }) => "resolved",
            Some(Resolution::TimedOut { .. }) => "timeout",
            None => "cancelled",
        };
        let before = self.run.interrupts.iter().filter(|other| other.node == interrupt.node);
        let count = before.take_while(|other| other.id != interrupt.id).count();
        let id = format!("{}:{}", self.run.id, interrupt.id);
        span.attributes.push(otlp::text("openwop.node_id", interrupt.node.as_str()));
        span.attributes.push(otlp::text("openwop.interrupt_kind", interrupt.kind.as_str()));
        span.attributes.push(otlp::text("openwop.interrupt_id", id));
        span.attributes.push(otlp::number("openwop.interrupt_count", count as u64));
        span.attributes.push(otlp::text("status", status));
        span
    }

    fn activity(&self, node: &NodeId, step: &str, took_ms: u64, at: Timestamp) -> Span {
        let from = Timestamp(at.0.saturating_sub_unsigned(took_ms));
        let name = self.context_within(node, "activity", step);
        let title = format!("openwop.activity.{}", self.node_type(node));
        let mut span = self.span(name, Some(self.node_context(node)), title, from, at);
        span.attributes.push(otlp::text("openwop.node_id", node.as_str()));
        span.attributes.push(otlp::text("openwop.node_type", self.node_type(node)));
        span
    }
}

/// Returns an error status with the code only: the message of a node may repeat its inputs.
fn failed(error: &RunError) -> Status {
    Status { message: error.code.clone(), code: StatusCode::Error.into() }
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}

/// Returns a span as the debug bundle shows it.
pub(crate) fn describe_span(span: &Span) -> BundleSpan {
    let instant = |nanoseconds: u64| Timestamp(i64::try_from(nanoseconds / 1_000_000).unwrap_or(0)).into();
    let parent = Some(&span.parent_span_id).filter(|id| !id.is_empty());
    BundleSpan {
        name: span.name.clone(),
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_span_id: parent.map(|id| hex(id)),
        started_at: instant(span.start_time_unix_nano),
        ended_at: instant(span.end_time_unix_nano),
        attributes: span.attributes.iter().map(|pair| (pair.key.clone(), otlp::as_json(pair))).collect(),
    }
}
