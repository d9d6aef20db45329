//! How many must agree, and when enough have spoken.

use serde_json::{Value, json};

use super::BadRequest;
use crate::ids::Timestamp;
use crate::limits;
use crate::via::Via;

/// One approver's voice in a gate that needs several.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    pub by: String,
    /// The answer as it counted: action, who and when.
    pub value: Value,
    pub at: Timestamp,
    /// What they call it themselves.
    pub decision: Option<String>,
    pub via: Option<Via>,
}

impl Vote {
    pub fn action(&self) -> &str {
        action(&self.value)
    }

    /// Whether it is one of the approvals that are needed.
    pub fn grants(&self) -> bool {
        grants(self.action())
    }
}

fn grants(action: &str) -> bool {
    ["accept", "override"].contains(&action)
}

fn action(value: &Value) -> &str {
    value.get("action").and_then(Value::as_str).unwrap_or_default()
}

/// What an approval says about how many must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quorum {
    pub required: u64,
    policy: Policy,
    /// An override decides alone, whatever is still missing; else it is one vote.
    override_decides: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The first refusal decides.
    SingleVeto,
    /// More than half of those required must refuse.
    Majority,
}

impl Quorum {
    pub(super) fn of(data: &Value) -> Self {
        let required = data.get("requiredApprovals").and_then(Value::as_u64).unwrap_or(1);
        let policy = match data.get("rejectionPolicy").and_then(Value::as_str) {
            Some("majority") => Policy::Majority,
            _ => Policy::SingleVeto,
        };
        let override_decides = data.get("overrideBypassesQuorum") == Some(&Value::Bool(true));
        Self { required, policy, override_decides }
    }

    /// What came of all votes, the last among them; nothing when others must still speak.
    pub(super) fn outcome(self, before: &[Vote], last: &Value) -> Option<Value> {
        let actions = before.iter().map(Vote::action).chain([action(last)]);
        let (mut approvals, mut rejections) = (0_u64, 0_u64);
        for action in actions {
            if grants(action) {
                approvals += 1;
            } else {
                rejections += 1;
            }
        }
        let refused = match self.policy {
            Policy::SingleVeto => rejections > 0,
            Policy::Majority => rejections > self.required / 2,
        };
        let overridden = self.override_decides && action(last) == "override";
        let shown = |value: &Value| {
            let named = ["decidedBy", "actedBy", "action", "decidedAt"].into_iter();
            let members = named.filter_map(|name| Some((name.to_owned(), value.get(name)?.clone())));
            Value::Object(members.collect())
        };
        let votes: Vec<Value> = before.iter().map(|vote| &vote.value).chain([last]).map(shown).collect();
        (refused || overridden || approvals >= self.required).then(|| {
            json!({
                "required": self.required, "policy": self.policy.as_str(), "approvals": approvals,
                "rejections": rejections, "votes": votes,
            })
        })
    }
}

impl Policy {
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
        // What is edited after somebody agreed is not what they agreed to.
        let edits = |action: &Value| matches!(action.as_str(), Some("edit" | "edit-accept"));
        let actions = data.get("actions").and_then(Value::as_array);
        if let Some(place) = actions.filter(|_| required > 1).and_then(|list| list.iter().position(edits)) {
            let message = "cannot be offered where several must agree: each would agree to something else";
            return Err(BadRequest::new(&format!("data.actions[{place}]"), message));
        }
    }
    match data.get("rejectionPolicy") {
        None => Ok(()),
        Some(policy) if matches!(policy.as_str(), Some("single-veto" | "majority")) => Ok(()),
        Some(_) => Err(BadRequest::new("data.rejectionPolicy", "must be single-veto or majority")),
    }
}
