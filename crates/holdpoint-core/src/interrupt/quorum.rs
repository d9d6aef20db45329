//! Quorums: the number of required approvals, and the outcome of the votes.

use serde_json::{Map, Value, json};

use super::BadRequest;
use crate::Timestamp;
use crate::Via;
use crate::limits;

/// A vote of an approver in an approval that requires several.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    /// The principal in whose name the vote counts.
    pub by: String,
    /// The recorded answer: the action, the decider and the time.
    pub value: Value,
    /// The time of the vote.
    pub at: Timestamp,
    /// The decision id that the client chose.
    pub decision: Option<String>,
    /// True if the vote was cast in the run that this one was copied from. It does not count for this run.
    pub copied: bool,
    /// The credential that the vote was sent with.
    pub via: Option<Via>,
    /// Data that the client sent with the vote. The engine does not verify it.
    pub client_metadata: Map<String, Value>,
}

impl Vote {
    /// Returns the action of the vote.
    pub fn action(&self) -> &str {
        self.value.as_object().map_or("", action)
    }

    /// Returns whether the vote is an approval.
    pub fn grants(&self) -> bool {
        grants(self.action())
    }
}

fn grants(action: &str) -> bool {
    ["accept", "override"].contains(&action)
}

fn action(vote: &Map<String, Value>) -> &str {
    vote.get("action").and_then(Value::as_str).unwrap_or_default()
}

/// The quorum rules of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quorum {
    pub required: u64,
    policy: RejectionPolicy,
    /// An override decides alone. Otherwise it is one vote.
    override_decides: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RejectionPolicy {
    /// The first rejection decides.
    SingleVeto,
    /// Rejections decide if they are more than half of the required approvals.
    Majority,
}

impl Quorum {
    pub(super) fn of(data: &Value) -> Self {
        let required = data.get("requiredApprovals").and_then(Value::as_u64).unwrap_or(1);
        let policy = match data.get("rejectionPolicy").and_then(Value::as_str) {
            Some("majority") => RejectionPolicy::Majority,
            _ => RejectionPolicy::SingleVeto,
        };
        let override_decides = data.get("overrideBypassesQuorum") == Some(&Value::Bool(true));
        Self { required, policy, override_decides }
    }

    /// Returns the outcome of all votes and their count, or None if more votes are needed. Apart from `decidedBy`,
    /// `actedBy` and `decidedAt`, the outcome does not depend on the order of the votes.
    pub(super) fn outcome(
        self,
        before: &[&Vote],
        last: &Map<String, Value>,
    ) -> Option<(Map<String, Value>, Value)> {
        let earlier = before.iter().filter_map(|vote| vote.value.as_object());
        let votes: Vec<&Map<String, Value>> = earlier.chain([last]).collect();
        let actions = votes.iter().map(|vote| action(vote));
        let (mut approvals, mut rejections) = (0_u64, 0_u64);
        for action in actions {
            if grants(action) {
                approvals += 1;
            } else {
                rejections += 1;
            }
        }
        let refused = match self.policy {
            RejectionPolicy::SingleVeto => rejections > 0,
            RejectionPolicy::Majority => rejections > self.required / 2,
        };
        let overridden = self.override_decides && action(last) == "override";
        let granted = overridden || approvals >= self.required;
        (refused || granted).then(|| {
            let shown = |vote: &&Map<String, Value>| Value::Object(members(vote, &VOTE_MEMBERS));
            let count = json!({
                "required": self.required, "policy": self.policy.as_str(), "approvals": approvals,
                "rejections": rejections, "votes": votes.iter().map(shown).collect::<Vec<_>>(),
            });
            let preferred = match (refused, overridden) {
                (true, _) => "reject",
                (false, true) => "override",
                (false, false) => "accept",
            };
            (quorum_decision(&votes, last, preferred), count)
        })
    }
}

/// The members of each vote in the `votes` of a quorum.
const VOTE_MEMBERS: [&str; 4] = ["decidedBy", "actedBy", "action", "decidedAt"];
/// The members in which a vote may give its reason.
const REASONS: [&str; 4] = ["feedback", "comment", "reason", "refineFeedback"];

/// Returns the decision of a quorum: the `preferred` action if a vote has it, otherwise the action of the last vote.
/// Reasons stay in their votes, unless exactly one vote has that action and it is not `accept`.
fn quorum_decision(
    votes: &[&Map<String, Value>],
    last: &Map<String, Value>,
    preferred: &str,
) -> Map<String, Value> {
    let preferred = votes.iter().map(|vote| action(vote)).find(|name| *name == preferred);
    let chosen = preferred.unwrap_or(action(last));
    let mut outcome = members(last, &VOTE_MEMBERS);
    outcome.insert("action".to_owned(), json!(chosen));
    let alike: Vec<_> = votes.iter().filter(|vote| action(vote) == chosen).collect();
    if let Some(vote) = alike.first() {
        outcome.extend(members(vote, &["decision"]));
    }
    if let ([vote], true) = (alike.as_slice(), chosen != "accept") {
        outcome.extend(members(vote, &REASONS));
    }
    outcome
}

fn members(vote: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), vote.get(*name)?.clone()))).collect()
}

impl RejectionPolicy {
    fn as_str(self) -> &'static str {
        match self {
            Self::SingleVeto => "single-veto",
            Self::Majority => "majority",
        }
    }
}

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    if let Some(required) = data.get("requiredApprovals") {
        let max = limits::REQUIRED_APPROVALS_MAX;
        let Some(required) = required.as_u64().filter(|required| (1..=max).contains(required)) else {
            let message = format!("must be a whole number from 1 to {max}");
            return Err(BadRequest::new("data.requiredApprovals", message));
        };
        // After an edit, earlier approvals would not be approvals of the same content.
        let edits = |action: &Value| matches!(action.as_str(), Some("edit" | "edit-accept"));
        let actions = data.get("actions").and_then(Value::as_array);
        if let Some(place) = actions.filter(|_| required > 1).and_then(|list| list.iter().position(edits)) {
            let message = "cannot be offered if requiredApprovals is greater than 1";
            return Err(BadRequest::new(&format!("data.actions[{place}]"), message));
        }
    }
    match data.get("rejectionPolicy") {
        None => Ok(()),
        Some(policy) if matches!(policy.as_str(), Some("single-veto" | "majority")) => Ok(()),
        Some(_) => Err(BadRequest::new("data.rejectionPolicy", "must be single-veto or majority")),
    }
}
