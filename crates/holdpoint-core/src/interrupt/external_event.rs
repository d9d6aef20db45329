//! External events: the rules that match an event with an interrupt, and the topics that index both.

use holdpoint_ids::digest;
use serde_json::{Map, Value, json};

use super::{BadRequest, Interrupt, Kind};
use crate::equality::json_equal;
use crate::limits;
use crate::refusal::{Refusal, check_size};

/// The number of hex digits of a topic: 128 bits, so that collisions are unlikely.
const TOPIC_DIGITS: usize = 32;

/// An event that an external system has sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalEvent {
    /// The type of the event.
    pub event_type: String,
    /// The id of the event, unique in its tenant. An event with the same id is a repetition.
    pub event_id: String,
    /// The members by which the event is matched with interrupts.
    pub correlation: Map<String, Value>,
    /// The content of the event.
    pub payload: Value,
}

impl ExternalEvent {
    /// Rejects an invalid event and names the invalid field.
    pub fn check(&self) -> Result<(), Refusal> {
        check_name("eventType", &self.event_type, limits::EVENT_TYPE_CHARS_MAX)?;
        check_name("eventId", &self.event_id, limits::EVENT_ID_CHARS_MAX)?;
        check_members("correlation", &self.correlation)
            .map_err(|why| Refusal::invalid(why.field, why.message))?;
        let within = |field: &str, value: &Value, max| {
            check_size("it", value, max).map_err(|why| Refusal::invalid(field, why.to_string()))
        };
        within("correlation", &Value::Object(self.correlation.clone()), limits::CORRELATION_BYTES_MAX)?;
        within("payload", &self.payload, limits::EVENT_PAYLOAD_BYTES_MAX)
    }

    /// Returns the digest of the event without its id, to detect repetitions.
    pub fn digest(&self) -> String {
        digest(&json!([self.event_type, self.correlation, self.payload]))
    }

    /// Returns the topics of the interrupts that may wait for the event.
    pub fn topics(&self) -> Vec<String> {
        topics(&self.event_type, &self.correlation)
    }

    /// Returns the value that the `resumeSchema` of an interrupt checks.
    pub(crate) fn resume_value(&self) -> Value {
        json!({"eventPayload": self.payload})
    }

    /// Returns the value that the log records.
    pub(crate) fn recorded_value(&self) -> Value {
        json!({"eventPayload": self.payload, "eventId": self.event_id})
    }
}

impl Interrupt {
    /// Returns the topics of the events that the interrupt may wait for. Interrupts of other kinds have none.
    pub fn topics(&self) -> Vec<String> {
        match self.awaited() {
            Some((event_type, correlation)) => topics(event_type, correlation),
            None => Vec::new(),
        }
    }

    /// Returns whether the interrupt waits for the event: the types are equal, and the interrupt has each member of the
    /// event's correlation. An event without correlation matches only interrupts without correlation.
    pub fn awaits(&self, event: &ExternalEvent) -> bool {
        self.check_awaits(event).is_ok()
    }

    pub(crate) fn check_awaits(&self, event: &ExternalEvent) -> Result<(), Refusal> {
        let mismatch = |name: &str| Err(Refusal::CorrelationMismatch(name.to_owned()));
        let Some((event_type, expected)) = self.awaited() else { return Err(Refusal::InterruptNotFound) };
        if event.event_type != event_type {
            return mismatch("eventType");
        }
        if event.correlation.is_empty() && !expected.is_empty() {
            return mismatch("correlation");
        }
        let differs = |(name, found): &(&String, &Value)| {
            expected.get(name.as_str()).is_none_or(|wanted| !json_equal(wanted, found))
        };
        match event.correlation.iter().find(differs) {
            Some((name, _)) => mismatch(name),
            None => Ok(()),
        }
    }

    fn awaited(&self) -> Option<(&str, &Map<String, Value>)> {
        if self.kind != Kind::ExternalEvent {
            return None;
        }
        Some((self.data.get("eventType")?.as_str()?, self.data.get("correlation")?.as_object()?))
    }
}

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    if data.get("eventType").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(BadRequest::new("data.eventType", "must be a non-empty string"));
    }
    match data.get("correlation") {
        Some(Value::Object(members)) => check_members("data.correlation", members),
        _ => Err(BadRequest::new("data.correlation", "must be an object")),
    }
}

/// Evaluates an answer. The event is `eventPayload` if the value has that member, otherwise the value itself.
/// Correlation members that the event contains must be equal; missing members are not checked.
pub(super) fn evaluate(data: &Value, value: &Value) -> Result<Value, Refusal> {
    let event = value.get("eventPayload").unwrap_or(value);
    let correlation = data.get("correlation").and_then(Value::as_object);
    for (name, expected) in correlation.into_iter().flatten() {
        if event.get(name).is_some_and(|found| !json_equal(expected, found)) {
            return Err(Refusal::CorrelationMismatch(name.clone()));
        }
    }
    Ok(value.clone())
}

fn check_members(field: &'static str, members: &Map<String, Value>) -> Result<(), BadRequest> {
    let max = limits::CORRELATION_MEMBERS_MAX;
    if members.len() > max {
        return Err(BadRequest::new(
            field,
            format!("has {} members; at most {max} are accepted", members.len()),
        ));
    }
    Ok(())
}

fn check_name(field: &str, name: &str, max: usize) -> Result<(), Refusal> {
    let fits = (1..=max).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(Refusal::invalid(
            field,
            format!("must be 1 to {max} characters, none of them a control character"),
        ))
    }
}

/// Returns one topic for each correlation member, or one topic if there are no members. Equal values have the same
/// topic. Different values have different topics, except integers that are equal as doubles.
fn topics(event_type: &str, correlation: &Map<String, Value>) -> Vec<String> {
    let topic = |of: Value| digest(&of).chars().skip("sha256:".len()).take(TOPIC_DIGITS).collect::<String>();
    if correlation.is_empty() {
        return vec![topic(json!([event_type]))];
    }
    let mut topics: Vec<String> =
        correlation.iter().map(|(name, value)| topic(json!([event_type, name, value]))).collect();
    topics.sort_unstable();
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_match_in_every_notation() {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for (one, other) in [("1", "1.0"), ("100", "1e2"), ("-0.0", "0"), ("0.5", "5e-1")] {
            assert!(json_equal(&read(one), &read(other)), "{one} and {other}");
        }
        for (one, other) in [
            ("1", "\"1\""),
            ("9007199254740993", "9007199254740992"),
            ("9007199254740993", "9007199254740992.0"),
            ("18446744073709551615", "18446744073709551616"),
            ("0", "null"),
            ("[1,2]", "[2,1]"),
            ("{\"a\":1}", "{\"a\":1,\"b\":1}"),
        ] {
            assert!(!json_equal(&read(one), &read(other)), "{one} and {other}");
        }
        assert!(json_equal(&read("{\"a\":[1],\"b\":2}"), &read("{\"b\":2.0,\"a\":[1.0]}")));
    }

    #[test]
    fn equal_correlations_have_the_same_topics() {
        let of =
            |text: &str| topics("paid", serde_json::from_str::<Value>(text).unwrap().as_object().unwrap());
        assert_eq!(of("{\"n\":1,\"o\":{\"a\":1,\"b\":2}}"), of("{\"o\":{\"b\":2,\"a\":1.0},\"n\":1e0}"));
        assert_ne!(of("{\"n\":1}"), of("{\"n\":\"1\"}"));
        assert_ne!(of("{\"n\":1}"), of("{\"m\":1}"));
        assert_ne!(of("{}"), topics("shipped", &Map::new()));
        assert_eq!((of("{}").len(), of("{\"n\":1,\"m\":1}").len()), (1, 2));
    }
}
