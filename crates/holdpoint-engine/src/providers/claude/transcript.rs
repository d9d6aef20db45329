//! What the agent has written down of a conversation: lines of JSON that are only ever added. Read to find out how far
//! it came when nobody was there to hear it.

use std::collections::HashSet;

use serde_json::Value;

use super::reference::Deferred;

/// The most bytes of a conversation that is kept here.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A conversation as far as it is written down.
#[derive(Default)]
pub(super) struct Told {
    open: Vec<Deferred>,
    answered: HashSet<String>,
    /// The model has said something.
    pub(super) spoke: bool,
    /// The model's last words, when it had nothing more to do.
    pub(super) finished: Option<String>,
}

impl Told {
    pub(super) fn read(text: &[u8]) -> Self {
        let mut told = Self::default();
        // A line that was being written when the program died is no line.
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        for line in lines {
            told.hear(&line);
        }
        told
    }

    fn hear(&mut self, line: &Value) {
        if line.get("isSidechain").and_then(Value::as_bool) == Some(true) {
            return;
        }
        match text(line, "type") {
            Some("attachment") => self.mark(&line["attachment"]),
            Some("user") => self.answer(&line["message"]["content"]),
            Some("assistant") => self.speak(line),
            _ => {}
        }
    }

    fn mark(&mut self, attachment: &Value) {
        if text(attachment, "type") != Some("hook_deferred_tool") {
            return;
        }
        let (Some(id), Some(tool)) = (text(attachment, "toolUseID"), text(attachment, "toolName")) else {
            return;
        };
        let input = attachment["toolInput"].clone();
        self.open.push(Deferred { id: id.to_owned(), tool: tool.to_owned(), input, attempt: String::new() });
    }

    fn answer(&mut self, content: &Value) {
        self.finished = None;
        let blocks = content.as_array().into_iter().flatten();
        let results = blocks.filter(|block| text(block, "type") == Some("tool_result"));
        self.answered.extend(results.filter_map(|block| Some(text(block, "tool_use_id")?.to_owned())));
    }

    fn speak(&mut self, line: &Value) {
        // What the program says for a model that could not be reached.
        if line.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true) {
            self.finished = None;
            return;
        }
        self.spoke = true;
        let message = &line["message"];
        let over = matches!(text(message, "stop_reason"), Some("end_turn" | "stop_sequence"));
        let words = message["content"].as_array().into_iter().flatten().rev();
        let words = words.filter_map(|block| text(block, "text")).next();
        self.finished = words.filter(|_| over).map(str::to_owned);
    }

    /// The last call that was put off and has no result.
    pub(super) fn open(&self) -> Option<&Deferred> {
        self.open.iter().rev().find(|deferred| !self.answered.contains(&deferred.id))
    }

    /// Whether the call has a result.
    pub(super) fn answered(&self, id: &str) -> bool {
        self.answered.contains(id)
    }
}

fn text<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(lines: &[Value]) -> Told {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        Told::read(lines.join("\n").as_bytes())
    }

    fn says(stop: &str, text: &str) -> Value {
        json!({"type": "assistant", "message": {"stop_reason": stop, "content": [{"type": "text", "text": text}]}})
    }

    fn deferred(id: &str) -> Value {
        json!({"type": "attachment", "attachment": {"type": "hook_deferred_tool", "toolUseID": id,
            "toolName": "Bash", "toolInput": {"command": "ls"}}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id}]}})
    }

    #[test]
    fn a_call_is_open_until_its_result_is_written() {
        let open = told(&[says("tool_use", "I will."), deferred("a")]);
        assert!(open.open().is_some_and(|open| open.id == "a" && open.tool == "Bash"));
        assert_eq!(open.finished, None);
        let over = told(&[says("tool_use", "I will."), deferred("a"), result("a"), says("end_turn", "done")]);
        assert!(over.open().is_none());
        assert!(over.answered("a"));
        assert_eq!(over.finished.as_deref(), Some("done"));
    }

    #[test]
    fn a_model_that_was_not_reached_has_said_nothing() {
        let mut error = says("stop_sequence", "API Error");
        error["isApiErrorMessage"] = json!(true);
        let nothing = told(&[json!({"type": "user", "message": {"content": "hello"}}), error]);
        assert!(!nothing.spoke);
        assert_eq!(nothing.finished, None);
    }

    #[test]
    fn half_a_line_is_no_line() {
        let mut text = deferred("a").to_string();
        text.push('\n');
        text.push_str(&result("a").to_string()[..30]);
        assert!(Told::read(text.as_bytes()).open().is_some());
    }
}
