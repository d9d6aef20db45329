//! Spans of runs, built event by event.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_core::{RunId, Workflow};
use serde_json::{Value as Json, json};

use super::*;

fn workflow() -> Arc<Workflow> {
    let node = |id: &str, type_id: &str| json!({"id": id, "typeId": type_id, "name": id, "config": {}, "inputs": {}});
    let definition = json!({
        "id": "w", "name": "w", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [node("begin", "core.noop"), node("a", "core.noop"), node("b", "core.http")],
        "edges": [
            {"id": "in", "sourceNodeId": "begin", "targetNodeId": "a"},
            {"id": "on", "sourceNodeId": "a", "targetNodeId": "b"},
            {"id": "back", "sourceNodeId": "b", "targetNodeId": "a"},
        ],
    });
    Arc::new(Workflow::parse(&definition, 1).unwrap())
}

/// Returns the spans of events, each a second after the previous one.
fn spans_of(run: &str, more: &Json, events: &[Json]) -> Vec<Span> {
    let id = RunId::parse(run).unwrap();
    let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: id.clone() };
    let mut started = json!({
        "type": "run.started", "workflow": "w", "revision": 1, "owner": {"tenant": "t", "principal": "p"},
    });
    started.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut builder = SpanBuilder::new(&of, Run::new(id, workflow()));
    let mut spans = Vec::new();
    for (event, at) in std::iter::once(&started).chain(events).zip(1..) {
        let event: Event = serde_json::from_value(event.clone()).unwrap();
        spans.extend(builder.apply(&event, Timestamp(at * 1000)));
    }
    let ids: BTreeSet<&Vec<u8>> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "no id twice");
    spans
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn attribute(span: &Span, name: &str) -> Json {
    let pair = span.attributes.iter().find(|pair| pair.key == name);
    pair.map_or(Json::Null, otlp::as_json)
}

/// From and to, in seconds.
fn seconds(span: &Span) -> (u64, u64) {
    (span.start_time_unix_nano / 1_000_000_000, span.end_time_unix_nano / 1_000_000_000)
}

fn starts(node: &str) -> Json {
    json!({"type": "node.started", "node": node})
}

fn completes(node: &str) -> Json {
    json!({"type": "node.completed", "node": node})
}

fn step() -> Json {
    json!({"type": "holdpoint.step.recorded", "node": "b", "name": "request", "result": 1, "took_ms": 500})
}

#[test]
fn each_visit_in_a_loop_has_its_own_spans() {
    let round = [starts("a"), completes("a"), starts("b"), step(), completes("b")];
    let turn = json!({"type": "holdpoint.loop.turned", "edge": "back", "iteration": 1});
    let events: Vec<Json> = round
        .iter()
        .cloned()
        .chain([turn])
        .chain(round.clone())
        .chain([json!({"type": "run.completed"})])
        .collect();
    let spans = spans_of("r", &json!({}), &events);
    let visits = named(&spans, "openwop.node.core.http");
    assert_eq!(visits.iter().map(|span| seconds(span)).collect::<Vec<_>>(), [(4, 6), (10, 12)]);
    let effects = named(&spans, "openwop.activity.core.http");
    assert_eq!(effects.len(), 2);
    for (visit, effect) in visits.iter().zip(effects) {
        assert_eq!(effect.parent_span_id, visit.span_id);
        assert_eq!(effect.end_time_unix_nano - effect.start_time_unix_nano, 500_000_000);
        assert_eq!(attribute(effect, "openwop.node_type"), "core.http");
    }
    assert_eq!(named(&spans, "openwop.run").len(), 1);
}

#[test]
fn an_effect_that_a_fork_copied_has_no_span() {
    let mut taken = step();
    taken.as_object_mut().unwrap().shift_remove("took_ms");
    let spans = spans_of("r", &json!({}), &[starts("b"), taken]);
    assert!(named(&spans, "openwop.activity.core.http").is_empty());
}

#[test]
fn attempts_are_counted_from_0_and_do_not_include_the_waits_between_them() {
    let error = json!({"code": "busy", "message": "who knows what", "retryable": true});
    let retried = |attempt: u32| json!({"type": "node.retried", "node": "b", "attempt": attempt, "delay_ms": 1000, "error": error});
    let sleeps = json!({"type": "holdpoint.sleep.started", "node": "b", "until": 0});
    let wakes = json!({"type": "holdpoint.sleep.ended", "node": "b"});
    let events =
        [starts("b"), retried(1), sleeps.clone(), wakes.clone(), retried(2), sleeps, wakes, completes("b")];
    let spans = spans_of("r", &json!({}), &events);
    let attempts = named(&spans, "openwop.node.core.http.attempt");
    let shown: Vec<_> =
        attempts.iter().map(|span| (attribute(span, "openwop.node_attempt"), seconds(span))).collect();
    assert_eq!(shown, [(json!(0), (2, 3)), (json!(1), (5, 6)), (json!(2), (8, 9))]);
    assert_eq!(attempts[0].status, Some(Status { message: "busy".to_owned(), code: 2 }));
    assert_eq!(attempts[2].status, None);
    let node = named(&spans, "openwop.node.core.http")[0];
    assert_eq!((seconds(node), attribute(node, "openwop.node_attempt")), ((2, 9), json!(2)));
    assert!(attempts.iter().all(|span| span.parent_span_id == node.span_id));
}

#[test]
fn a_run_that_ends_while_a_retry_waits_has_no_span_for_that_retry() {
    let error = json!({"code": "busy", "message": "", "retryable": true});
    let events = [
        starts("b"),
        json!({"type": "node.retried", "node": "b", "attempt": 1, "delay_ms": 1000, "error": error}),
        json!({"type": "holdpoint.sleep.started", "node": "b", "until": 99_000}),
        json!({"type": "run.cancelled", "by": "p"}),
    ];
    let spans = spans_of("r", &json!({}), &events);
    assert_eq!(named(&spans, "openwop.node.core.http.attempt").len(), 1);
    assert_eq!(named(&spans, "openwop.node.core.http").len(), 1);
}

#[test]
fn the_span_of_an_interrupt_has_its_outcome() {
    let asked = |id: u32, key: &str| json!({"type": "interrupt.requested", "id": id, "node": "b", "kind": "custom", "key": key, "data": {}});
    let events = [
        starts("b"),
        asked(1, "k1"),
        json!({"type": "interrupt.timed_out", "id": 1}),
        asked(2, "k2"),
        json!({"type": "run.failed", "error": {"code": "x", "message": "y"}}),
    ];
    let spans = spans_of("r", &json!({}), &events);
    let interrupts = named(&spans, "openwop.interrupt");
    let shown: Vec<_> = interrupts
        .iter()
        .map(|span| (attribute(span, "status"), attribute(span, "openwop.interrupt_count"), seconds(span)))
        .collect();
    assert_eq!(shown, [(json!("timeout"), json!(0), (3, 4)), (json!("cancelled"), json!(1), (5, 6))]);
    let node = named(&spans, "openwop.node.core.http")[0];
    assert!(interrupts.iter().all(|span| span.parent_span_id == node.span_id));
}

#[test]
fn a_reached_cap_is_an_attribute_of_its_event_and_of_the_run() {
    let breach =
        json!({"type": "cap.breached", "cap": "node-executions", "limit": 5, "observed": 6, "node": "b"});
    let failed = json!({"type": "run.failed", "error": {"code": "recursion_limit_exceeded", "message": ""}});
    let spans = spans_of("r", &json!({}), &[breach, failed]);
    let limited: Vec<&Span> =
        spans.iter().filter(|span| attribute(span, "openwop.cap_kind") == "node-executions").collect();
    let names: Vec<&str> = limited.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["openwop.event.append", "openwop.run"]);
    for span in limited {
        assert_eq!(
            (attribute(span, "openwop.cap_limit"), attribute(span, "openwop.cap_observed")),
            (json!(5), json!(6))
        );
    }
}

#[test]
fn the_spans_of_a_fork_begin_with_the_fork() {
    let fork = |mode: &str, at: i64| json!({"fork": {"source": "s", "origin": "s", "from_seq": 2, "mode": mode, "at": at}});
    for mode in ["replay", "branch"] {
        let events = [starts("a"), completes("a"), json!({"type": "run.completed"})];
        let spans = spans_of("r", &fork(mode, 3000), &events);
        assert_eq!(seconds(named(&spans, "openwop.run")[0]), (3, 4));
        assert_eq!(
            seconds(named(&spans, "openwop.node.core.noop")[0]),
            (3, 3),
            "the node was running before the fork"
        );
        let copied = spans_of("r", &fork(mode, 9000), &events);
        assert_eq!(seconds(named(&copied, "openwop.run")[0]), (1, 4), "copied spans keep their times");
    }
}

#[test]
fn the_run_span_of_a_replay_reports_an_earlier_divergence() {
    let fork = json!({"fork": {"source": "s", "origin": "s", "from_seq": 3, "mode": "replay"}});
    let differs = |source: &str| json!({"type": "replay.diverged", "source": source, "at_sequence": 3, "expected": "x", "found": "y"});
    let end = json!({"type": "run.completed"});
    let spans = spans_of("r", &fork, &[differs("s"), starts("a"), completes("a"), end.clone()]);
    let run = named(&spans, "openwop.run")[0];
    assert_eq!(attribute(run, "openwop.replay.diverged"), true);
    let source = spans_of("s", &json!({}), std::slice::from_ref(&end));
    let source = named(&source, "openwop.run")[0];
    assert_eq!(
        run.links,
        [Link { trace_id: source.trace_id.clone(), span_id: source.span_id.clone(), ..Link::default() }]
    );
    assert_ne!(run.trace_id, source.trace_id);
    // A divergence of the source, which is itself a fork, is not one of this fork.
    let copied = spans_of("q", &fork, &[differs("another"), end]);
    assert_eq!(attribute(named(&copied, "openwop.run")[0], "openwop.replay.diverged"), false);
}
