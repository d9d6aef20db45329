//! Decisions of agents, and the requests to ratify those with low confidence.

use serde_json::{Map, Value, json};

use super::{BadRequest, InterruptRequest, Kind};
use crate::limits;

/// The default confidence below which a decision must be ratified.
pub const ESCALATION_THRESHOLD_DEFAULT: f64 = 0.7;

/// A decision of an agent with its confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentDecision {
    /// The id of the agent.
    pub agent: String,
    /// The decision.
    pub decision: Value,
    /// The confidence. None and a number that is not finite never escalate. The event records such a number as a flaw.
    pub confidence: Option<f64>,
}

impl AgentDecision {
    /// Returns the request to ratify the decision, if the confidence is below the threshold of the run.
    pub fn escalation(&self, configurable: Option<&Map<String, Value>>) -> Option<InterruptRequest> {
        self.escalation_below(escalation_threshold(configurable))
    }

    /// Returns the request to ratify the decision, if the confidence is below this threshold.
    pub fn escalation_below(&self, threshold: f64) -> Option<InterruptRequest> {
        let observed = self.confidence.filter(|confidence| confidence.is_finite())?;
        let data = json!({
            "agentId": self.agent, "threshold": threshold, "observed": observed, "decision": self.decision,
        });
        (observed < threshold).then(|| InterruptRequest::new(Kind::LowConfidence, data))
    }
}

/// Returns the threshold of confidence of a run.
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
