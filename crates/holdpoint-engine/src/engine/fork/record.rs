//! The log of the source of a fork: the events to copy, recorded answers and steps, and the comparison with derived
//! events.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdpoint_core::{
    Answer, ChildInterruptChanges, ChildRunState, Command, Event, Interrupt, Kind, NodeId, Principal,
    Refusal, Run, RunError, RunId, StartRequest, Via, as_answer, decide, digest,
};
use serde_json::{Map, Value};

use crate::store::events::RecordedEvent;

/// The recorded events of the source.
pub(super) struct SourceLog {
    pub source: RunId,
    pub events: Vec<RecordedEvent>,
    /// The sequences at which commits begin. The state of a run is consistent only between two commits.
    pub commit_starts: BTreeSet<u64>,
    /// The sequence at which the source itself was forked. It can lie in the middle of a commit of the earlier run.
    pub forked_at: Option<u64>,
    /// The start of the fork.
    pub start: StartRequest,
}

impl SourceLog {
    /// Returns the latest error of a node.
    pub(super) fn error_of(&self, node: &NodeId) -> RunError {
        let failed = self.events.iter().rev().find_map(|one| match &one.event {
            Event::NodeFailed { node: failed, error } if failed == node => Some(error.clone()),
            _ => None,
        });
        failed.unwrap_or_else(|| RunError::new("node_failed", format!("node {node} failed")))
    }

    /// Replaces the first event by the start of the fork. Fails if the core refuses that start.
    pub(super) fn new(
        source: RunId,
        mut events: Vec<RecordedEvent>,
        commit_starts: BTreeSet<u64>,
        start: StartRequest,
        new_run: &Run,
    ) -> Result<Self, Refusal> {
        let mut forked_at = None;
        if let Some(first) = events.first_mut() {
            if let Event::RunStarted(started) = &first.event {
                forked_at = started.fork.as_ref().map(|fork| fork.from_seq);
            }
            let begun = decide(new_run, &Command::Start(Box::new(start.clone())), first.at)?;
            first.event = begun.into_iter().next().ok_or(Refusal::AlreadyStarted)?;
        }
        Ok(Self { source, events, commit_starts, forked_at, start })
    }

    /// Returns the last sequence up to `before` at which a commit of the source begins.
    pub(super) fn last_commit_start(&self, before: usize) -> u64 {
        let mut commit_starts = self.commit_starts.range(..=before as u64);
        commit_starts.rfind(|at| Some(**at) != self.forked_at).copied().unwrap_or(0)
    }

    pub(super) fn truncate(&mut self, from_seq: u64) {
        self.events.truncate(usize::try_from(from_seq).unwrap_or(usize::MAX));
    }

    /// Gives child runs that the source still waits for at the end of the record new ids, so that the fork starts its
    /// own.
    pub(super) fn rename_children(&mut self, copy: &RunId, new_run: &Run) {
        let mut run = new_run.clone();
        self.events.iter().for_each(|one| run.apply(&one.event, one.at));
        let waited = |run: &Run, child: &ChildRunState| {
            (child.call.is_some() || run.awaits(&child.run)) && !run.finished()
        };
        let mut names = HashMap::new();
        for (at, child) in run.children.iter().enumerate() {
            if child.result.is_none()
                && waited(&run, child)
                && let Ok(name) = RunId::parse(&format!("{copy}.{}", at + 1))
            {
                names.insert(child.run.clone(), name);
            }
        }
        for one in &mut self.events {
            if let Event::NodeDispatched { child, .. }
            | Event::NodeAwaiting { child, .. }
            | Event::ChildChanged { child, .. } = &mut one.event
                && let Some(name) = names.get(child)
            {
                *child = name.clone();
                // The new child run reports its own interrupts.
                if let Event::ChildChanged { interrupts, .. } = &mut one.event {
                    *interrupts = ChildInterruptChanges::default();
                }
            }
        }
    }

    /// Replaces the run id in artifact ids, so that a branch has its own artifacts, including the copied ones.
    pub(super) fn rename_artifacts(&mut self, theirs: &RunId, copy: &RunId) {
        for one in &mut self.events {
            let (node, name) = match &mut one.event {
                Event::ArtifactCreated { node, artifact, .. } => (node, artifact),
                Event::InterruptRequested { node, data, .. } if data.get("artifactId").is_some() => {
                    match Arc::make_mut(data).get_mut("artifactId") {
                        Some(Value::String(name)) => (node, name),
                        _ => continue,
                    }
                }
                _ => continue,
            };
            if *name == format!("{theirs}:{node}") {
                *name = format!("{copy}:{node}");
                refresh_digest(&mut one.event);
            }
        }
    }

    /// Compares a derived event with the recorded event at a position. If they match, returns the event to write:
    /// the derived one if only the run id differs, otherwise the recorded one.
    pub(super) fn matching_event(&self, at: usize, derived: &Event, copy: &RunId) -> Option<Event> {
        let whole = derived;
        let recorded = &self.events.get(at)?.event;
        let outside = match (recorded, derived) {
            // The end of a sleep depends on the clock.
            (Event::SleepStarted { node: one, .. }, Event::SleepStarted { node: other, .. }) => one == other,
            (Event::NodeDispatched { child, .. }, Event::NodeDispatched { .. }) => {
                let mut renamed = derived.clone();
                if let Event::NodeDispatched { child: name, .. } = &mut renamed {
                    *name = child.clone();
                }
                renamed == *recorded
            }
            _ => false,
        };
        let derived = &adopt_recorded_members(derived, recorded);
        if outside || recorded == derived {
            return Some(recorded.clone());
        }
        if self.is_same_except_run_id(recorded, derived, copy) {
            return Some(whole.clone());
        }
        (adopt_recorded_wording(derived, recorded) == *recorded).then(|| recorded.clone())
    }

    /// Returns whether two events differ only in the id of the run.
    fn is_same_except_run_id(&self, recorded: &Event, derived: &Event, copy: &RunId) -> bool {
        let derived = serde_json::to_string(derived).unwrap_or_default();
        let renamed = derived.replace(copy.as_str(), self.source.as_str());
        // Compared as values, because members of objects can have another order in an old log.
        renamed != derived
            && serde_json::from_str::<Value>(&renamed).ok() == serde_json::to_value(recorded).ok()
    }

    /// Returns the recorded answers by interrupt key, including every vote of a quorum.
    pub(super) fn answers(&self, copy: &RunId) -> HashMap<String, Vec<RecordedAnswer>> {
        let (mut asked, mut answers) = (HashMap::new(), HashMap::<String, Vec<_>>::new());
        for one in &self.events {
            match &one.event {
                Event::InterruptRequested { id, key, data, .. } => {
                    let shown = Arc::new([digest(data), digest(&self.renamed_data(copy, data))]);
                    asked.insert(*id, (key.clone(), shown));
                }
                Event::VoteCast { interrupt: id, value, by, client_metadata, .. }
                | Event::InterruptResolved { id, vote: Some(value), by, client_metadata, .. }
                | Event::InterruptResolved { id, value, vote: None, by, client_metadata, .. } => {
                    if let Some((key, shown)) = asked.get(id) {
                        let answer = RecordedAnswer {
                            value: value.clone(),
                            by: by.clone(),
                            shown: shown.clone(),
                            client_metadata: client_metadata.clone(),
                        };
                        answers.entry(key.clone()).or_default().push(answer);
                    }
                }
                _ => {}
            }
        }
        answers
    }

    /// Returns data of the source with the run id of the fork.
    fn renamed_data(&self, copy: &RunId, data: &Value) -> Value {
        let renamed = data.to_string().replace(self.source.as_str(), copy.as_str());
        serde_json::from_str(&renamed).unwrap_or_else(|_| data.clone())
    }

    /// Returns the recorded steps by node and visit.
    pub(super) fn steps(&self, new_run: Run) -> HashMap<(NodeId, u32), Vec<(String, Value)>> {
        let mut run = new_run;
        let mut steps: HashMap<_, Vec<_>> = HashMap::new();
        for one in &self.events {
            if let Event::StepRecorded { node, name, result, .. } = &one.event {
                let visit = run.node_state(node).map_or(1, |state| state.visit);
                steps.entry((node.clone(), visit)).or_default().push((name.clone(), result.clone()));
            }
            run.apply(&one.event, one.at);
        }
        steps
    }
}

/// A recorded answer.
pub(super) struct RecordedAnswer {
    value: Value,
    by: String,
    /// The digests of the payload as it was shown, and as the fork shows it.
    shown: Arc<[String; 2]>,
    client_metadata: Map<String, Value>,
}

impl RecordedAnswer {
    /// Returns the answer for an interrupt of the fork. If the payload differs, the answer has the digest of the
    /// recorded payload, so that the core refuses it.
    pub(super) fn to_answer(&self, asked: &Interrupt) -> Answer {
        let now = asked.digest.clone().unwrap_or_else(|| digest(&asked.data));
        let meant = self.shown.contains(&now);
        let approval = Some(&self.value).filter(|_| asked.kind == Kind::Approval);
        let acting = approval.and_then(|value| value.get("actedBy")).and_then(Value::as_str);
        let value = approval.map_or_else(|| self.value.clone(), as_answer);
        let sender = Principal::named(acting.unwrap_or(&self.by));
        Answer {
            acting_as: acting.is_some(),
            copied: true,
            digest: if meant { asked.digest.clone() } else { Some(self.shown[0].clone()) },
            via: Some(Via::replay()),
            client_metadata: self.client_metadata.clone(),
            ..Answer::new(value, sender)
        }
    }
}

/// Computes the digest of changed data again. Requests of older versions have no digest.
fn refresh_digest(event: &mut Event) {
    if let Event::InterruptRequested { digest: Some(digest), data, .. } = event {
        *digest = holdpoint_core::digest(data);
    }
}

/// Copies members from the recorded event that events of older versions lack and that follow from the compared members:
/// the digest of a request, the unmapped outputs, the details of an error. Also copies the recorded uses of grants,
/// because a fork cannot use the grants of its source.
fn adopt_recorded_members(derived: &Event, recorded: &Event) -> Event {
    let mut derived = derived.clone();
    match (&mut derived, recorded) {
        (
            Event::InterruptRequested { digest, data, .. },
            Event::InterruptRequested { digest: old, data: recorded, .. },
        ) => {
            digest.clone_from(old);
            adopt_ticket(Arc::make_mut(data), recorded);
        }
        (Event::NodeStarted { uses, .. }, Event::NodeStarted { uses: old, .. }) => uses.clone_from(old),
        (Event::NodeCompleted { unmapped, .. }, Event::NodeCompleted { unmapped: old, .. }) => {
            unmapped.clone_from(old);
        }
        (Event::NodeFailed { error, .. }, Event::NodeFailed { error: old, .. })
        | (Event::RunFailed { error, .. }, Event::RunFailed { error: old, .. }) => {
            error.details.clone_from(&old.details);
        }
        _ => {}
    }
    derived
}

/// Copies error messages from the recorded event, because their wording can change between versions. The code of an error
/// does not change.
fn adopt_recorded_wording(derived: &Event, recorded: &Event) -> Event {
    let mut derived = derived.clone();
    match (&mut derived, recorded) {
        (Event::NodeFailed { error, .. }, Event::NodeFailed { error: old, .. })
        | (Event::NodeRetried { error, .. }, Event::NodeRetried { error: old, .. })
        | (Event::RunFailed { error, .. }, Event::RunFailed { error: old, .. }) => {
            error.message.clone_from(&old.message);
        }
        (Event::AgentDecided { flaw: Some(flaw), .. }, Event::AgentDecided { flaw: Some(old), .. }) => {
            flaw.clone_from(old);
        }
        _ => {}
    }
    derived
}

/// Removes the member `rule` of a ticket if the recorded ticket has none. Older versions did not show the rule.
fn adopt_ticket(data: &mut Value, recorded: &Value) {
    let members = data.as_object_mut().filter(|_| recorded.get("rule").is_none());
    if members.is_some_and(|members| members.shift_remove("rule").is_some())
        && let (Some(message), Some(old)) =
            (data.pointer_mut("/suspension/message"), recorded.pointer("/suspension/message"))
    {
        message.clone_from(old);
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{InterruptId, Owner, RunError, TenantId, Timestamp};
    use serde_json::json;

    use super::*;

    fn asked(run: &str, old: bool) -> Event {
        let data = json!({"customKind": "colour", "of": run});
        Event::InterruptRequested {
            id: InterruptId(1),
            node: NodeId::parse("a").unwrap(),
            kind: Kind::Custom,
            key: "k".to_owned(),
            resume_schema: None,
            timeout_ms: None,
            digest: (!old).then(|| digest(&data)),
            data: Arc::new(data),
        }
    }

    fn record(event: Event) -> SourceLog {
        let owner = Owner { tenant: TenantId::parse("t").unwrap(), principal: "ann".to_owned() };
        let events = vec![RecordedEvent { seq: 0, at: Timestamp(0), event }];
        let source = RunId::parse("source").unwrap();
        SourceLog {
            source,
            events,
            commit_starts: BTreeSet::new(),
            start: StartRequest::new(owner),
            forked_at: None,
        }
    }

    #[test]
    fn events_of_an_older_version_match_without_members_that_it_did_not_record() {
        let copy = RunId::parse("copy").unwrap();
        let node = || NodeId::parse("a").unwrap();
        let completed = |outputs: Value, unmapped: &[&str]| Event::NodeCompleted {
            node: node(),
            outputs: outputs.as_object().cloned().unwrap_or_default(),
            branch: None,
            unmapped: unmapped.iter().map(|name| (*name).to_owned()).collect(),
        };
        let accepted = || json!({"action": "accept", "feedback": "fine"});
        let older = completed(accepted(), &[]);
        let newer = completed(accepted(), &["feedback"]);
        assert_eq!(record(older.clone()).matching_event(0, &newer, &copy), Some(older.clone()));
        assert_eq!(record(older).matching_event(0, &completed(json!({}), &[]), &copy), None);
        let failed = |error: RunError| Event::NodeFailed { node: node(), error };
        let older = failed(RunError::new("approval_rejected", "late"));
        let newer = failed(RunError::timed_out("approval_rejected", "late"));
        assert_eq!(record(older.clone()).matching_event(0, &newer, &copy), Some(older.clone()));
        let reworded = failed(RunError::timed_out("approval_rejected", "no answer in time"));
        assert_eq!(record(older.clone()).matching_event(0, &reworded, &copy), Some(older.clone()));
        let other_code = failed(RunError::new("node_failed", "late"));
        assert_eq!(record(older).matching_event(0, &other_code, &copy), None);
    }

    #[test]
    fn a_ticket_of_an_older_version_matches_without_its_rule() {
        let copy = RunId::parse("copy").unwrap();
        let ticket = |data: Value| match asked("x", false) {
            Event::InterruptRequested { id, node, kind, key, .. } => Event::InterruptRequested {
                id,
                node,
                kind,
                key,
                resume_schema: None,
                timeout_ms: None,
                digest: Some(digest(&data)),
                data: Arc::new(data),
            },
            other => other,
        };
        let older = ticket(json!({"suspension": {"message": "Allow it?"}}));
        let newer = |message: &str, reason: &str| {
            ticket(json!({"suspension": {"message": message}, "rule": {"reason": reason}}))
        };
        let now = newer("Allow it? money", "money");
        assert_eq!(record(older.clone()).matching_event(0, &now, &copy), Some(older.clone()));
        assert_eq!(record(now.clone()).matching_event(0, &now, &copy), Some(now.clone()));
        assert_eq!(record(now).matching_event(0, &newer("Allow it? time", "time"), &copy), None);
        let other = ticket(json!({"suspension": {"message": "Send it?"}}));
        assert_eq!(record(older).matching_event(0, &other, &copy), None);
    }

    #[test]
    fn a_request_of_an_older_version_matches_without_its_digest() {
        let copy = RunId::parse("copy").unwrap();
        let same = |recorded: Event, derived: Event| record(recorded).matching_event(0, &derived, &copy);
        assert_eq!(same(asked("x", true), asked("x", false)), Some(asked("x", true)));
        assert_eq!(same(asked("x", false), asked("x", false)), Some(asked("x", false)));
        assert_eq!(same(asked("x", true), asked("y", false)), None);
        // Data that contains the run id gets a new digest.
        assert_eq!(same(asked("source", false), asked("copy", false)), Some(asked("copy", false)));
    }
}
