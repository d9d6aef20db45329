//! From what happened to a run to the spans that end with it. Pure: a span is only sent once it is over, with the times
//! that are recorded, so pauses of days and restarts in between make no difference.

use holdpoint_api::artifacts::BundleSpan;
use holdpoint_core::{
    Cap, End, Event, Fork, ForkMode, Interrupt, InterruptId, NodeId, Resolution, Run, RunError, RunRef,
    TenantId, Timestamp, hex,
};
use holdpoint_engine::{Committed, SpanName, cause};

use super::otlp::{self, Link, Span, SpanKind, Status, StatusCode};

#[cfg(test)]
mod tests;

/// The spans that end with a commit.
pub(crate) fn spans(committed: &Committed) -> Vec<Span> {
    let unborn = || Run::unborn(committed.run.id.clone(), committed.run.workflow.clone());
    let from = committed.from.as_ref().map_or_else(unborn, |run| Run::clone(run));
    let mut teller = Teller::new(&committed.of, from);
    let over = teller.run.end.as_ref().map(End::at);
    if let Some(at) = over.filter(|_| committed.events.is_empty()) {
        // A copy of a whole run. What was copied is told under the source.
        return vec![teller.run_span(at.max(committed.at))];
    }
    committed.events.iter().flat_map(|event| teller.tell(event, committed.at)).collect()
}

/// Follows a run from event to event.
pub(crate) struct Teller {
    tenant: TenantId,
    run: Run,
    /// The limit that the run came to last, how much there was, and of what.
    cap: Option<(Cap, u64, u64)>,
}

impl Teller {
    /// `run` as it is before what will be told.
    pub(crate) fn new(of: &RunRef, run: Run) -> Self {
        Self { tenant: of.tenant.clone(), run, cap: None }
    }

    /// The fold behind what was told.
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// The spans that end with an event.
    pub(crate) fn tell(&mut self, event: &Event, at: Timestamp) -> Vec<Span> {
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
            // Without a time it was not done but taken over from another run.
            Event::StepRecorded { node, name, took_ms: Some(ms), .. } => {
                spans.push(self.activity(node, name, *ms, at));
            }
            Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                spans.extend(self.cut_off(seq, at));
                spans.push(self.run_span(at));
            }
            _ => {}
        }
        spans
    }

    /// What was still open when the run ended.
    fn cut_off(&self, seq: u64, at: Timestamp) -> Vec<Span> {
        let mut spans: Vec<Span> =
            self.run.open_interrupts().map(|interrupt| self.interrupt(interrupt, at)).collect();
        for (node, state) in self.run.workflow.nodes.iter().zip(&self.run.nodes) {
            if state.status.is_at_work() {
                spans.extend((!state.retrying).then(|| self.attempt(&node.id, seq, None, at)));
                spans.push(self.node(&node.id, seq, None, at));
            }
        }
        spans
    }

    fn root(&self) -> SpanName {
        SpanName::of_run(&self.tenant, &self.run)
    }

    fn span(
        &self,
        name: SpanName,
        parent: Option<SpanName>,
        title: String,
        (from, to): (Timestamp, Timestamp),
    ) -> Span {
        // What a fork has taken over began before there was the fork, and is told under its source.
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
        let times = (self.run.started_at, at);
        let mut span = self.span(self.root(), cause(&self.run), "openwop.run".to_owned(), times);
        if let Some(started) = &self.run.started {
            if let Some(parent) = &started.parent {
                span.attributes.push(otlp::text("openwop.parent.run_id", parent.run.as_str()));
                span.attributes.push(otlp::text("openwop.parent.workflow_id", parent.workflow.as_str()));
                span.attributes.push(otlp::text("openwop.parent.node_id", parent.node.as_str()));
            }
            if let Some(fork) = &started.fork {
                self.forked(fork, &mut span);
            }
        }
        if let Some(End::Failed { error, .. }) = &self.run.end {
            span.status = Some(failed(error));
        }
        self.limited(&mut span);
        span
    }

    /// A fork is no child of its source: somebody's request caused it. The two are linked.
    fn forked(&self, fork: &Fork, span: &mut Span) {
        let mode = match fork.mode {
            ForkMode::Replay => "replay",
            ForkMode::Branch => "branch",
        };
        span.attributes.push(otlp::text("openwop.replay.source_run_id", fork.source.as_str()));
        span.attributes.push(otlp::number("openwop.replay.from_seq", fork.from_seq));
        span.attributes.push(otlp::text("openwop.replay.mode", mode));
        span.attributes.push(otlp::flag("openwop.replay.diverged", self.run.diverged));
        let source = SpanName::of_source(&self.tenant, &fork.source, &self.run);
        span.links.push(Link {
            trace_id: source.trace.to_vec(),
            span_id: source.span.to_vec(),
            ..Link::default()
        });
    }

    fn limited(&self, span: &mut Span) {
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

    fn node_name(&self, node: &NodeId) -> SpanName {
        self.root().of_node(&self.run.id, node, self.visit(node))
    }

    /// Something inside of a visit of a node.
    fn name_within(&self, node: &NodeId, what: &str, which: &str) -> SpanName {
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
        let mut span = self.span(self.node_name(node), Some(self.root()), title, (from, at));
        self.describe(&mut span, node, state.map_or(0, |state| state.retries), seq);
        span.status = error.map(failed);
        span
    }

    /// The attempt that ends with an event.
    fn attempt(&self, node: &NodeId, seq: u64, error: Option<&RunError>, at: Timestamp) -> Span {
        let state = self.run.node_state(node);
        let from = state.and_then(|state| state.tried_at).unwrap_or(at);
        // A failure that is tried again has counted the next attempt already.
        let attempt = state.map_or(0, |state| state.retries - u32::from(state.retrying));
        let name = self.name_within(node, "attempt", &attempt.to_string());
        let title = format!("openwop.node.{}.attempt", self.node_type(node));
        let mut span = self.span(name, Some(self.node_name(node)), title, (from, at));
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
        let mut span = self.span(name, Some(self.root()), "openwop.event.append".to_owned(), (at, at));
        span.attributes.push(otlp::text("openwop.event_type", event.name()));
        span.attributes.push(otlp::number("openwop.event_seq", seq));
        if let Event::CapBreached { .. } = event {
            self.limited(&mut span);
        }
        span
    }

    /// Open from the question to its answer, or to the end of its run.
    fn interrupt(&self, interrupt: &Interrupt, at: Timestamp) -> Span {
        let InterruptId(number) = interrupt.id;
        let name = self.root().with(&["interrupt", self.run.id.as_str(), &number.to_string()]);
        let parent = Some(self.node_name(&interrupt.node));
        let times = (interrupt.requested_at, at);
        let mut span = self.span(name, parent, "openwop.interrupt".to_owned(), times);
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
        let name = self.name_within(node, "activity", step);
        let title = format!("openwop.activity.{}", self.node_type(node));
        let mut span = self.span(name, Some(self.node_name(node)), title, (from, at));
        span.attributes.push(otlp::text("openwop.node_id", node.as_str()));
        span.attributes.push(otlp::text("openwop.node_type", self.node_type(node)));
        span
    }
}

/// The code only: what a node says of its failure may repeat what it was given.
fn failed(error: &RunError) -> Status {
    Status { message: error.code.clone(), code: StatusCode::Error.into() }
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}

/// Returns a span as the debug bundle shows it.
pub(crate) fn described(span: &Span) -> BundleSpan {
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
