//! Decisions of agents that are not sure enough: when somebody must ratify them, and what that request needs.

use serde_json::{Map, Value, json};

use super::{BadRequest, Kind, Request};
use crate::limits;

/// Where nobody says how sure an agent must be.
pub const ESCALATION_THRESHOLD_DEFAULT: f64 = 0.7;

/// What an agent decided, and how sure it says it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub agent: String,
    pub decision: Value,
    /// Nothing is no signal, and so is what is not a finite number; the latter is on record as a flaw.
    pub confidence: Option<f64>,
}

impl Decision {
    /// The request to ratify the decision, when the agent is less sure than the run's options demand.
    pub fn escalation(&self, configurable: Option<&Map<String, Value>>) -> Option<Request> {
        self.escalation_below(escalation_threshold(configurable))
    }

    /// The request to ratify it, when the agent is less sure than this.
    pub fn escalation_below(&self, threshold: f64) -> Option<Request> {
        let observed = self.confidence.filter(|confidence| confidence.is_finite())?;
        let data = json!({
            "agentId": self.agent, "threshold": threshold, "observed": observed, "decision": self.decision,
        });
        (observed < threshold).then(|| Request::new(Kind::LowConfidence, data))
    }
}

/// How sure agents of a run must be.
pub fn escalation_threshold(configurable: Option<&Map<String, Value>>) -> f64 {
    let given = configurable.and_then(|options| options.get("escalationThreshold")).and_then(Value::as_f64);
    given.unwrap_or(ESCALATION_THRESHOLD_DEFAULT)
}

pub(crate) fn check_agent(agent: Option<&Value>, field: &str) -> Result<(), BadRequest> {
    let (min, max) = (limits::AGENT_ID_CHARS_MIN, limits::AGENT_ID_CHARS_MAX);
    match agent.and_then(Value::as_str).map(|name| name.chars().count()) {
        Some(length) if (min..=max).contains(&length) => Ok(()),
        Some(_) | None => {
            Err(BadRequest::new(field, format!("must be a string of {min} to {max} characters")))
        }
    }
}

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    check_agent(data.get("agentId"), "data.agentId")?;
    for field in ["threshold", "observed"] {
        if !data.get(field).is_some_and(Value::is_number) {
            return Err(BadRequest::new(&format!("data.{field}"), "must be a number"));
        }
    }
    Ok(())
}
