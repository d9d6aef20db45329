//! Decides which reports of activities are recorded. A report is for readers, so one that does not fit is dropped and
//! never fails its node.

use super::agent::agent_of;
use super::finish::remaining_bytes;
use crate::NodeId;
use crate::agent::ActivityReport;
use crate::event::Event;
use crate::limits;
use crate::refusal::{Refusal, check_size, json_bytes};
use crate::run::Run;

/// The bytes that are reserved for results and the events after them.
const RESERVE: usize = 2 * limits::STEP_RESULT_BYTES_MAX;

/// Returns the event of a report. Returns None if the node has reported too often, if the run is almost full, or if the
/// call of the report has ended.
pub(super) fn report_activity(
    run: &Run,
    node: &NodeId,
    report: &ActivityReport,
) -> Result<Option<Event>, Refusal> {
    for (field, text) in [("activity.id", &report.id), ("activity.kind", &report.kind)] {
        if !(1..=limits::ACTIVITY_CHARS_MAX).contains(&text.chars().count()) {
            let message = format!("must be 1 to {} characters", limits::ACTIVITY_CHARS_MAX);
            return Err(Refusal::invalid(field, message));
        }
    }
    check_size("the activity", &report.content, limits::ACTIVITY_BYTES_MAX)?;
    let reported = run.node_state(node).map_or(0, |state| state.activities);
    let call = report.call.as_deref();
    let has_ended = call.is_some_and(|call| {
        let known = agent_of(run, node).and_then(|agent| agent.call(call));
        known.is_none_or(|call| call.status.is_terminal())
    });
    let fits = json_bytes(&report.content) + RESERVE <= remaining_bytes(run);
    Ok((reported < limits::ACTIVITIES_MAX && !has_ended && fits).then(|| Event::ActivityReported {
        node: node.clone(),
        activity: report.id.clone(),
        kind: report.kind.clone(),
        content: report.content.clone(),
        call: report.call.clone(),
    }))
}
