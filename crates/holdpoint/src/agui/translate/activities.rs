//! The activities of a segment. The first report of an activity is a snapshot; later ones are deltas if they are shorter.

use std::collections::BTreeMap;

use holdpoint_api::agui::Event;
use holdpoint_core::{Event as RunEvent, Run};
use serde_json::Value;

use super::patch::difference;
use crate::agui::ids;

/// The activities that the client knows from this segment, by message id on the wire.
#[derive(Debug, Default)]
pub(super) struct Activities(BTreeMap<String, KnownActivity>);

#[derive(Debug)]
struct KnownActivity {
    kind: String,
    content: Value,
}

impl Activities {
    pub(super) fn translate(&mut self, event: &RunEvent, run: &Run, events: &mut Vec<Event>) {
        let RunEvent::ActivityReported { node, activity, kind, content, .. } = event else { return };
        let message_id = ids::wire_id(run, node, &format!("activity:{activity}"));
        let now = KnownActivity { kind: kind.clone(), content: Value::Object(content.clone()) };
        let known = self.0.get(&message_id).filter(|known| known.kind == now.kind);
        let patch = known.map(|known| difference(&known.content, &now.content));
        let activity_type = now.kind.clone();
        let is_shorter = |patch: &Vec<_>| {
            let bytes = |value: &Value| value.to_string().len();
            serde_json::to_string(patch).is_ok_and(|text| text.len() < bytes(&now.content))
        };
        match patch {
            Some(patch) if patch.is_empty() => return,
            Some(patch) if is_shorter(&patch) => {
                events.push(Event::ActivityDelta { message_id: message_id.clone(), activity_type, patch });
            }
            Some(_) | None => events.push(Event::ActivitySnapshot {
                message_id: message_id.clone(),
                activity_type,
                content: content.clone(),
                replace: None,
            }),
        }
        self.0.insert(message_id, now);
    }
}
