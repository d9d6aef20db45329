//! `core.conformance.mock-agent`: records the decision and the confidence in its config.

use holdpoint_core::AgentDecision;
use serde_json::{Value, json};

use holdpoint_engine::{Context, Outputs, PureNode, Stop};

pub(super) struct MockAgent;

impl PureNode for MockAgent {
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let config = context.config();
        let mock = config.get("mockDecision").cloned().unwrap_or_else(|| json!({}));
        let agent = config.get("agentId").or_else(|| mock.get("agentId")).and_then(Value::as_str);
        let agent = agent.unwrap_or("mock-agent").to_owned();
        let confidence = confidence(mock.get("confidence").or_else(|| config.get("confidence")));
        let decision = mock.get("decision").cloned().unwrap_or(mock);
        let ratified = context.record_decision(AgentDecision { agent, decision, confidence })?;
        let mut outputs = Outputs::new();
        outputs.insert("decision".to_owned(), ratified);
        Ok(outputs)
    }
}

/// Returns the confidence. A value that is not a number becomes NaN, which never escalates.
fn confidence(given: Option<&Value>) -> Option<f64> {
    let given = given.filter(|value| !value.is_null())?;
    Some(given.as_f64().unwrap_or(f64::NAN))
}
