//! Folds writes to channels with their reducers. The fold never fails: invalid writes are rejected before they are
//! recorded.

use serde_json::{Map, Number, Value, json};

use super::Run;
use crate::Timestamp;
use crate::event::{Event, Reducer};

/// The limits of a channel. A write removes the entries that exceed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChannelLimits {
    ttl_ms: Option<u64>,
    max_size: Option<u64>,
}

impl Run {
    pub(super) fn write_channel(&mut self, event: &Event, at: Timestamp) {
        let Event::ChannelWritten { node, channel, value, reducer, ttl_ms, max_size } = event else { return };
        self.keep_variables_of_siblings(node);
        self.channels.insert(channel.clone());
        let limits = ChannelLimits { ttl_ms: *ttl_ms, max_size: *max_size };
        if self.node_state(node).is_some_and(|state| state.unseen.is_some()) {
            let own = reduce(self.visible_variables(node).get(channel), value, *reducer, limits, at);
            self.show_own_change(node, channel, &own);
        }
        let state = reduce(self.variables.get(channel), value, *reducer, limits, at);
        self.set_variable(channel, &state);
    }

    /// Returns the values of the channels by name.
    pub fn channel_states(&self) -> Map<String, Value> {
        let written = |name: &String| Some((name.clone(), self.variables.get(name)?.clone()));
        self.channels.iter().filter_map(written).collect()
    }
}

/// Rejects a value that does not have the type that the reducer requires.
pub(crate) fn check_write(reducer: Reducer, value: &Value) -> Result<(), &'static str> {
    let names = |member: &str| value.get(member).is_some_and(Value::is_string);
    match reducer {
        Reducer::Merge if !value.is_object() => Err("the reducer merge requires an object"),
        Reducer::Counter if !value.is_number() => Err("the reducer counter requires a number"),
        Reducer::Votes if !names("userId") => Err("the reducer votes requires an object with a userId"),
        Reducer::Message if !names("messageId") => {
            Err("the reducer message requires an object with a messageId")
        }
        Reducer::Replace
        | Reducer::Append
        | Reducer::Merge
        | Reducer::Counter
        | Reducer::Votes
        | Reducer::Feedback
        | Reducer::Message => Ok(()),
    }
}

fn reduce(
    current: Option<&Value>,
    next: &Value,
    reducer: Reducer,
    limits: ChannelLimits,
    at: Timestamp,
) -> Value {
    let mut entries = current.and_then(Value::as_array).cloned().unwrap_or_default();
    match reducer {
        Reducer::Replace => return next.clone(),
        Reducer::Merge => return merge(current, next),
        Reducer::Counter => return add(current, next),
        Reducer::Append => {
            remove_expired(&mut entries, limits.ttl_ms, at);
            entries.push(json!({"value": next, "_ts": at.0}));
        }
        Reducer::Feedback => {
            remove_expired(&mut entries, limits.ttl_ms, at);
            entries.push(with_timestamp(next, at));
        }
        Reducer::Votes => {
            remove_expired(&mut entries, limits.ttl_ms, at);
            entries.retain(|vote| vote.get("userId") != next.get("userId"));
            entries.push(with_timestamp(next, at));
        }
        Reducer::Message => {
            let id = next.get("messageId");
            if id.is_none() || !entries.iter().any(|known| known.get("messageId") == id) {
                entries.push(next.clone());
            }
        }
    }
    let max = limits.max_size.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    entries.drain(..entries.len().saturating_sub(max));
    Value::Array(entries)
}

fn merge(current: Option<&Value>, next: &Value) -> Value {
    match (current.and_then(Value::as_object), next) {
        (Some(current), Value::Object(next)) => {
            let mut merged = current.clone();
            merged.extend(next.clone());
            Value::Object(merged)
        }
        _ => next.clone(),
    }
}

/// Adds numbers. Integers are added exactly if the sum fits in 64 bits.
fn add(current: Option<&Value>, next: &Value) -> Value {
    let whole = |value: Option<&Value>| value.map_or(Some(0), Value::as_i64);
    if let (Some(current), Some(next)) = (whole(current), next.as_i64())
        && let Some(sum) = current.checked_add(next)
    {
        return Value::from(sum);
    }
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or_default();
    let sum = Number::from_f64(number(current) + number(Some(next)));
    sum.map_or_else(|| current.cloned().unwrap_or_else(|| next.clone()), Value::Number)
}

fn remove_expired(entries: &mut Vec<Value>, ttl_ms: Option<u64>, at: Timestamp) {
    let Some(ttl_ms) = ttl_ms.and_then(|ms| i64::try_from(ms).ok()) else { return };
    let oldest = at.0.saturating_sub(ttl_ms);
    entries.retain(|entry| entry.get("_ts").and_then(Value::as_i64).is_none_or(|ts| ts >= oldest));
}

fn with_timestamp(value: &Value, at: Timestamp) -> Value {
    match value {
        Value::Object(members) => {
            let mut members = members.clone();
            members.insert("_ts".to_owned(), json!(at.0));
            Value::Object(members)
        }
        other => json!({"value": other, "_ts": at.0}),
    }
}
