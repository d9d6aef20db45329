//! The text of a row of the `events` table: the JSON of the events, in which control characters stand for the id of the
//! run and for the beginnings of frequent events. JSON escapes control characters in strings, so that the text has no
//! others.

use std::borrow::Cow;

use holdpoint_core::Event;
use memchr::memmem;

use super::{Error, unreadable};

/// Stands for the id of the run.
const RUN_ID: u8 = 1;

/// Beginnings of events, each with the control character that stands for it. Stored rows contain them: no entry may ever
/// change. Tab, line feed and carriage return may be whitespace of JSON.
const HEADS: [(u8, &str); 11] = [
    (2, r#"{"type":"run.started","workflow":""#),
    (3, r#"{"type":"node.started","node":""#),
    (4, r#"{"type":"node.completed","node":""#),
    (5, r#"{"type":"node.suspended","node":""#),
    (6, r#"{"type":"node.resumed","node":""#),
    (7, r#"{"type":"interrupt.requested","id":"#),
    (8, r#"{"type":"interrupt.resolved","id":"#),
    (11, r#"{"type":"approval.requested","interrupt":"#),
    (12, r#"{"type":"approval.received","interrupt":"#),
    (14, r#"{"type":"run.completed"}"#),
    (15, r#"{"type":"holdpoint."#),
];

/// The capacity that is reserved for the JSON of the events of a commit. Most commits need less.
const BYTES_EXPECTED: usize = 1024;

/// Returns the stored text of the events of one commit of a run.
pub(super) fn to_stored(events: &[Event], run: &str) -> Result<String, Error> {
    let (mut text, mut json) = (Vec::with_capacity(BYTES_EXPECTED), Vec::with_capacity(BYTES_EXPECTED));
    for (at, event) in events.iter().enumerate() {
        text.push(if at == 0 { b'[' } else { b',' });
        json.clear();
        serde_json::to_writer(&mut json, event).map_err(|error| unreadable("event", error))?;
        let head = HEADS.iter().find(|(_, head)| json.starts_with(head.as_bytes()));
        text.extend(head.map(|(code, _)| *code));
        text.extend_from_slice(&json[head.map_or(0, |(_, head)| head.len())..]);
    }
    text.push(b']');
    json.clear();
    let mut rest = 0;
    for found in memmem::find_iter(&text, run) {
        json.extend_from_slice(&text[rest..found]);
        json.push(RUN_ID);
        rest = found + run.len();
    }
    json.extend_from_slice(&text[rest..]);
    String::from_utf8(json).map_err(|error| unreadable("event", error))
}

/// Returns the JSON of a stored text. Texts of earlier versions contain no control characters.
pub(super) fn to_json<'t>(stored: &'t str, run: &str) -> Cow<'t, str> {
    let is_code = |letter: char| letter < ' ' && !matches!(letter, '\t' | '\n' | '\r');
    if !stored.contains(is_code) {
        return Cow::Borrowed(stored);
    }
    let mut json = String::with_capacity(2 * stored.len());
    for piece in stored.split_inclusive(is_code) {
        let (plain, code) = piece.split_at(piece.len() - usize::from(piece.ends_with(is_code)));
        json.push_str(plain);
        json.push_str(match code.as_bytes() {
            [RUN_ID] => run,
            // An unknown code, of a later version, stays: a control character makes the JSON invalid.
            [byte] => HEADS.iter().find(|(known, _)| known == byte).map_or(code, |(_, head)| head),
            _ => code,
        });
    }
    Cow::Owned(json)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RUN: &str = "01a1f032-1b7c-75db-b872-2d7875f9418a";

    fn events(list: &Value) -> Vec<Event> {
        serde_json::from_value(list.clone()).unwrap()
    }

    /// Checks that the text is read as it was, and returns it.
    fn stored(list: &Value, run: &str) -> String {
        let events = events(list);
        let text = to_stored(&events, run).unwrap();
        assert_eq!(to_json(&text, run), serde_json::to_string(&events).unwrap());
        text
    }

    #[test]
    fn the_stored_format_of_an_approval_does_not_change() {
        let owner = json!({"tenant": "t", "principal": "p"});
        let asked = json!({"artifactId": format!("{RUN}:gate"), "title": "Go"});
        let list = json!([
            {"type": "run.started", "workflow": "w", "revision": 1, "owner": owner},
            {"type": "node.started", "node": "gate"},
            {"type": "interrupt.requested", "id": 1, "node": "gate", "kind": "approval",
                "key": format!("{RUN}:gate:0"), "data": asked},
            {"type": "node.suspended", "node": "gate", "interrupt": 1},
            {"type": "approval.requested", "interrupt": 1},
            {"type": "interrupt.resolved", "id": 1, "value": {"action": "accept"}, "by": "p"},
            {"type": "approval.received", "interrupt": 1},
            {"type": "node.resumed", "node": "gate", "interrupt": 1},
            {"type": "node.completed", "node": "gate"},
            {"type": "holdpoint.sleep.ended", "node": "nap"},
            {"type": "run.completed"},
        ]);
        let expected = "[\u{2}w\",\"revision\":1,\"owner\":{\"tenant\":\"t\",\"principal\":\"p\"}},\u{3}gate\"},\
            \u{7}1,\"node\":\"gate\",\"kind\":\"approval\",\"key\":\"\u{1}:gate:0\",\
            \"data\":{\"artifactId\":\"\u{1}:gate\",\"title\":\"Go\"}},\u{5}gate\",\"interrupt\":1},\u{b}1},\
            \u{8}1,\"value\":{\"action\":\"accept\"},\"by\":\"p\"},\u{c}1},\u{6}gate\",\"interrupt\":1},\u{4}gate\"},\
            \u{f}sleep.ended\",\"node\":\"nap\"},\u{e}]";
        assert_eq!(stored(&list, RUN), expected);
    }

    #[test]
    fn any_text_is_restored_for_any_run_id() {
        let texts =
            ["\u{1}\u{2}\n\0", r#"{"type":"run.completed"}"#, r#"\",","#, "é\u{1f}\u{7f}", "type", RUN];
        for text in texts {
            let list = json!([
                {"type": "node.skipped", "node": "n", "reason": text},
                {"type": "node.completed", "node": "n", "outputs": {text: [text, {"type": "run.completed"}]}},
            ]);
            for run in ["t", "type", "\"", "u0001", "run.completed", RUN] {
                stored(&list, run);
            }
        }
    }

    #[test]
    fn text_of_earlier_versions_is_read_unchanged() {
        let json = "[ {\"type\":\"run.completed\"},\r\n\t\"\\u0001\" ]";
        assert!(matches!(to_json(json, RUN), Cow::Borrowed(same) if same == json));
    }

    #[test]
    fn an_unknown_control_character_makes_the_json_invalid() {
        let json = to_json("[\u{e},\"\u{1f}\"]", RUN);
        assert!(json.starts_with("[{\"type\":\"run.completed\"},"));
        assert!(serde_json::from_str::<Value>(&json).is_err(), "{json:?}");
    }
}
