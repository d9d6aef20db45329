//! The interrupts that a client was shown together, computed from the log of the run of the thread. Pure.
//!
//! A segment ends while another branch of the run, or a child run, can still open an interrupt. A client then answers
//! the interrupts that it was shown, and does not know the later ones.

use std::collections::BTreeSet;

use holdpoint_core::{Run, Timestamp};
use holdpoint_engine::{RecordedEvent, SiblingsWait};

use super::interrupts;
use super::resume_plan::InterruptPlace;
use super::translate::SegmentEnd;

/// Replays the log of a run up to the first end of a segment that shows all `named` interrupts, and returns all that it
/// shows. `log` begins with `run`, and `starts` are the first events of its commits. Returns the last state if no
/// segment has ended.
pub(super) fn shown_with(
    named: &BTreeSet<InterruptPlace>,
    mut run: Run,
    log: &[RecordedEvent],
    starts: &BTreeSet<u64>,
) -> BTreeSet<InterruptPlace> {
    let mut hidden = named.clone();
    // The time since which the run has waited for its child runs.
    let (mut waits_since, mut last) = (None, Timestamp::default());
    for recorded in log {
        if starts.contains(&recorded.seq) {
            let shown = places(&run);
            hidden.retain(|place| !shown.contains(place));
            match SegmentEnd::of(&run) {
                Some(SegmentEnd::Interrupts) => {
                    let since = *waits_since.get_or_insert(last);
                    if hidden.is_empty() && !waits_for_siblings(&run, since, recorded.at) {
                        return shown;
                    }
                }
                Some(SegmentEnd::Ended | SegmentEnd::ClientTools) | None => waits_since = None,
            }
        }
        run.apply(&recorded.event, recorded.at);
        last = recorded.at;
    }
    places(&run)
}

/// Returns whether a segment of a run that has waited since a time was still open at the time `at`.
fn waits_for_siblings(run: &Run, since: Timestamp, at: Timestamp) -> bool {
    let is_own = interrupts::open_for_people(run).next().is_some();
    let waited = u128::try_from(at.0.saturating_sub(since.0)).unwrap_or_default();
    !is_own && run.has_executing_child() && waited < SiblingsWait::MAX.as_millis()
}

fn places(run: &Run) -> BTreeSet<InterruptPlace> {
    let own =
        interrupts::open_for_people(run).map(|asked| InterruptPlace { run: run.id.clone(), id: asked.id });
    let below = run.child_interrupts();
    let below = below.map(|(child, open)| InterruptPlace { run: open.run(&child.run).clone(), id: open.id });
    own.chain(below).collect()
}

#[cfg(test)]
mod tests {
    use holdpoint_core::InterruptId;
    use serde_json::{Value, json};

    use super::*;
    use crate::agui::test_runs::{event, new_run, started, workflow};

    /// Returns the ids of the runs whose interrupts a client was shown with those of the `named` runs. Each event is a
    /// commit.
    fn shown(named: &[&str], log: &[(i64, Value)]) -> Vec<String> {
        let place = |run: &&str| InterruptPlace {
            run: holdpoint_core::RunId::parse(run).unwrap(),
            id: InterruptId(1),
        };
        let recorded = |(seq, (at, one)): (usize, &(i64, Value))| RecordedEvent {
            seq: seq as u64,
            at: Timestamp(*at),
            event: event(one.clone()),
        };
        let log: Vec<_> = log.iter().enumerate().map(recorded).collect();
        let starts = log.iter().map(|one| one.seq).collect();
        let run = new_run(workflow("w", &["a", "b"]));
        let shown = shown_with(&named.iter().map(place).collect(), run, &log, &starts);
        shown.into_iter().map(|place| place.run.to_string()).collect()
    }

    fn dispatched(node: &str, child: &str) -> [Value; 2] {
        [
            json!({"type": "node.started", "node": node}),
            json!({"type": "node.dispatched", "node": node, "child": child, "workflow": "w", "wait": true, "cascade": true}),
        ]
    }

    fn opened(child: &str) -> Value {
        json!({
            "type": "holdpoint.child.changed", "child": child, "status": "waiting-approval",
            "interrupts": {"opened": [{"id": 1, "node": "a", "kind": "approval"}]},
        })
    }

    /// Returns a log in which the interrupt of `r.2` opens some time after that of `r.1`.
    fn log(delay: i64) -> Vec<(i64, Value)> {
        let [begin_a, a] = dispatched("a", "r.1");
        let [begin_b, b] = dispatched("b", "r.2");
        let first = [event_started(), begin_a, a, begin_b, b, opened("r.1")];
        let first = first.into_iter().map(|one| (1000, one));
        first.chain([(1000 + delay, opened("r.2"))]).collect()
    }

    fn event_started() -> Value {
        started(json!({}))
    }

    #[test]
    fn interrupts_that_open_during_the_wait_for_siblings_are_shown_together() {
        assert_eq!(shown(&["r.1"], &log(1999)), ["r.1", "r.2"]);
        assert_eq!(shown(&["r.2"], &log(1999)), ["r.1", "r.2"]);
    }

    #[test]
    fn an_interrupt_that_opens_after_the_end_of_a_segment_is_not_shown_with_the_first() {
        assert_eq!(shown(&["r.1"], &log(2000)), ["r.1"]);
        assert_eq!(shown(&["r.2"], &log(2000)), ["r.1", "r.2"], "a later segment shows both");
    }
}
