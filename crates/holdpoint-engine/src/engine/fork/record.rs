//! The log of the source as a fork reads it: which of it came from outside, and whether something is the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdpoint_core::{
    Answer, Child, Command, Event, Interrupt, Kind, NodeId, Principal, Refusal, Run, RunError, RunId, Start,
    Via, as_answer, decide, digest,
};
use serde_json::Value;

use crate::store::events::Recorded;

pub(super) struct Record {
    pub source: RunId,
    pub events: Vec<Recorded>,
    /// The numbers at which commits begin: between two commits a run is at rest.
    pub starts: BTreeSet<u64>,
    /// Where the source went its own way, if it is a branch: it may have been cut from another in the middle of a commit.
    pub seam: Option<u64>,
    /// How the copy begins.
    pub start: Start,
}

impl Record {
    /// Returns the latest error of a node.
    pub(super) fn error_of(&self, node: &NodeId) -> RunError {
        let failed = self.events.iter().rev().find_map(|one| match &one.event {
            Event::NodeFailed { node: failed, error } if failed == node => Some(error.clone()),
            _ => None,
        });
        failed.unwrap_or_else(|| RunError::new("node_failed", format!("node {node} failed")))
    }

    /// The first event is that of the copy; refused when it may not begin like that.
    pub(super) fn new(
        source: RunId,
        mut events: Vec<Recorded>,
        starts: BTreeSet<u64>,
        start: Start,
        unborn: &Run,
    ) -> Result<Self, Refusal> {
        let mut seam = None;
        if let Some(first) = events.first_mut() {
            if let Event::RunStarted(started) = &first.event {
                seam = started.fork.as_ref().map(|fork| fork.from_seq);
            }
            let begun = decide(unborn, &Command::Start(Box::new(start.clone())), first.at)?;
            first.event = begun.into_iter().next().ok_or(Refusal::AlreadyStarted)?;
        }
        Ok(Self { source, events, starts, seam, start })
    }

    /// The last place not behind this one at which the source was at rest.
    pub(super) fn rest(&self, before: usize) -> u64 {
        let mut starts = self.starts.range(..=before as u64);
        starts.rfind(|at| Some(**at) != self.seam).copied().unwrap_or(0)
    }

    pub(super) fn cut(&mut self, from_seq: u64) {
        self.events.truncate(usize::try_from(from_seq).unwrap_or(usize::MAX));
    }

    /// Runs that are waited for at the end of the record belong to the source. The copy will have its own.
    pub(super) fn rename_children(&mut self, copy: &RunId, unborn: &Run) {
        let mut run = unborn.clone();
        self.events.iter().for_each(|one| run.apply(&one.event, one.at));
        let waited =
            |run: &Run, child: &Child| (child.call.is_some() || run.awaits(&child.run)) && !run.finished();
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
            }
        }
    }

    /// What a branch has made is found under its own name, also what it has taken over.
    pub(super) fn rename_artifacts(&mut self, theirs: &RunId, copy: &RunId) {
        for one in &mut self.events {
            let (node, name) = match &mut one.event {
                Event::ArtifactCreated { node, artifact, .. } => (node, artifact),
                Event::InterruptRequested { node, data, .. } => match data.get_mut("artifactId") {
                    Some(Value::String(name)) => (node, name),
                    _ => continue,
                },
                _ => continue,
            };
            if *name == format!("{theirs}:{node}") {
                *name = format!("{copy}:{node}");
                sign_again(&mut one.event);
            }
        }
    }

    /// Whether the copy does the same as the source at a place. If so, what is written: the record where the world
    /// outside had a say, else what was worked out.
    pub(super) fn same(&self, at: usize, derived: &Event, copy: &RunId) -> Option<Event> {
        let whole = derived;
        let recorded = &self.events.get(at)?.event;
        let outside = match (recorded, derived) {
            // The time it was told to sleep is a matter of the clock.
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
        self.same_but_for_names(recorded, derived, copy).then(|| whole.clone())
    }

    /// Where a run's own id is part of what it says.
    fn same_but_for_names(&self, recorded: &Event, derived: &Event, copy: &RunId) -> bool {
        let derived = serde_json::to_string(derived).unwrap_or_default();
        let renamed = derived.replace(copy.as_str(), self.source.as_str());
        // As values: members of objects may have another order in a log from before.
        renamed != derived
            && serde_json::from_str::<Value>(&renamed).ok() == serde_json::to_value(recorded).ok()
    }

    /// What was answered, by key: every vote, where votes were counted.
    pub(super) fn answers(&self, copy: &RunId) -> HashMap<String, Vec<Said>> {
        let (mut asked, mut answers) = (HashMap::new(), HashMap::<String, Vec<_>>::new());
        for one in &self.events {
            match &one.event {
                Event::InterruptRequested { id, key, data, .. } => {
                    let shown = Arc::new([digest(data), digest(&self.in_the_name_of(copy, data))]);
                    asked.insert(*id, (key.clone(), shown));
                }
                Event::VoteCast { interrupt: id, value, by, .. }
                | Event::InterruptResolved { id, vote: Some(value), by, .. }
                | Event::InterruptResolved { id, value, vote: None, by, .. } => {
                    if let Some((key, shown)) = asked.get(id) {
                        let said = Said { value: value.clone(), by: by.clone(), shown: shown.clone() };
                        answers.entry(key.clone()).or_default().push(said);
                    }
                }
                _ => {}
            }
        }
        answers
    }

    /// What the source would have shown under the name of its copy.
    fn in_the_name_of(&self, copy: &RunId, data: &Value) -> Value {
        let renamed = data.to_string().replace(self.source.as_str(), copy.as_str());
        serde_json::from_str(&renamed).unwrap_or_else(|_| data.clone())
    }

    /// What was done outside, by node and visit.
    pub(super) fn steps(&self, unborn: Run) -> HashMap<(NodeId, u32), Vec<(String, Value)>> {
        let mut run = unborn;
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

/// An answer on record.
pub(super) struct Said {
    value: Value,
    by: String,
    /// The digests of what it was said to: as it was shown, and as the copy would show it.
    shown: Arc<[String; 2]>,
}

impl Said {
    /// The same answer to what is asked now. Where something else is asked it says what it was given to, and is refused
    /// as any answer is that was meant for something else.
    pub(super) fn again(&self, asked: &Interrupt) -> Answer {
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
            ..Answer::new(value, sender)
        }
    }
}

/// A digest is of what is shown, and what is shown has changed. Requests of older versions have none.
fn sign_again(event: &mut Event) {
    if let Event::InterruptRequested { digest: Some(digest), data, .. } = event {
        *digest = holdpoint_core::digest(data);
    }
}

/// Takes over from the record the members that events of older versions lack and that follow from the members which are
/// compared: the digest of a request, the unmapped outputs, the details of an error. The recorded uses of grants are
/// taken over too, because a copy cannot use the grants of its source.
fn adopt_recorded_members(derived: &Event, recorded: &Event) -> Event {
    let mut derived = derived.clone();
    match (&mut derived, recorded) {
        (
            Event::InterruptRequested { digest, data, .. },
            Event::InterruptRequested { digest: old, data: recorded, .. },
        ) => {
            digest.clone_from(old);
            adopt_ticket(data, recorded);
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

/// Older versions did not show the words of the rule that asks about a call.
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
            data,
        }
    }

    fn record(event: Event) -> Record {
        let owner = Owner { tenant: TenantId::parse("t").unwrap(), principal: "ann".to_owned() };
        let events = vec![Recorded { seq: 0, at: Timestamp(0), event }];
        let source = RunId::parse("source").unwrap();
        Record { source, events, starts: BTreeSet::new(), start: Start::new(owner), seam: None }
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
        let said = || json!({"action": "accept", "feedback": "fine"});
        let older = completed(said(), &[]);
        let newer = completed(said(), &["feedback"]);
        assert_eq!(record(older.clone()).same(0, &newer, &copy), Some(older.clone()));
        assert_eq!(record(older).same(0, &completed(json!({}), &[]), &copy), None);
        let failed = |error: RunError| Event::NodeFailed { node: node(), error };
        let older = failed(RunError::new("approval_rejected", "late"));
        let newer = failed(RunError::timed_out("approval_rejected", "late"));
        assert_eq!(record(older.clone()).same(0, &newer, &copy), Some(older));
    }

    #[test]
    fn a_ticket_of_an_older_version_is_the_same_without_the_words_of_its_rule() {
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
                data,
            },
            other => other,
        };
        let older = ticket(json!({"suspension": {"message": "Allow it?"}}));
        let newer = |message: &str, reason: &str| {
            ticket(json!({"suspension": {"message": message}, "rule": {"reason": reason}}))
        };
        let now = newer("Allow it? money", "money");
        assert_eq!(record(older.clone()).same(0, &now, &copy), Some(older.clone()));
        assert_eq!(record(now.clone()).same(0, &now, &copy), Some(now.clone()));
        assert_eq!(record(now).same(0, &newer("Allow it? time", "time"), &copy), None);
        let other = ticket(json!({"suspension": {"message": "Send it?"}}));
        assert_eq!(record(older).same(0, &other, &copy), None);
    }

    #[test]
    fn a_request_of_an_older_version_is_the_same_without_its_digest() {
        let copy = RunId::parse("copy").unwrap();
        let same = |recorded: Event, derived: Event| record(recorded).same(0, &derived, &copy);
        assert_eq!(same(asked("x", true), asked("x", false)), Some(asked("x", true)));
        assert_eq!(same(asked("x", false), asked("x", false)), Some(asked("x", false)));
        assert_eq!(same(asked("x", true), asked("y", false)), None);
        // What carries the name of its run gets the digest of what it then says.
        assert_eq!(same(asked("source", false), asked("copy", false)), Some(asked("copy", false)));
    }
}
