//! The transcript of a conversation: an append-only file of JSON lines that the program writes. It shows the progress
//! of a turn that was aborted.

use std::collections::HashSet;

use serde_json::Value;

use super::reference::DeferredCall;

/// The maximum size of a stored conversation.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The state of a conversation as read from its file.
#[derive(Default)]
pub(super) struct Transcript {
    open: Vec<DeferredCall>,
    answered: HashSet<String>,
    /// The user has sent a message.
    pub(super) has_prompt: bool,
    /// The model has written output.
    pub(super) has_model_output: bool,
    /// The last text of the model, if the model ended its turn.
    pub(super) final_text: Option<String>,
}

impl Transcript {
    pub(super) fn read(text: &[u8]) -> Self {
        let mut transcript = Self::default();
        // Ignores an incomplete last line.
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        for line in lines {
            transcript.apply_line(&line);
        }
        transcript
    }

    fn apply_line(&mut self, line: &Value) {
        if line.get("isSidechain").and_then(Value::as_bool) == Some(true) {
            return;
        }
        match text(line, "type") {
            Some("attachment") => self.apply_attachment(&line["attachment"]),
            Some("user") => self.apply_user_message(&line["message"]["content"]),
            Some("assistant") => self.apply_assistant_message(line),
            _ => {}
        }
    }

    fn apply_attachment(&mut self, attachment: &Value) {
        if text(attachment, "type") != Some("hook_deferred_tool") {
            return;
        }
        let (Some(id), Some(tool)) = (text(attachment, "toolUseID"), text(attachment, "toolName")) else {
            return;
        };
        let input = attachment["toolInput"].clone();
        self.open.push(DeferredCall {
            id: id.to_owned(),
            tool: tool.to_owned(),
            input,
            attempt: String::new(),
        });
    }

    fn apply_user_message(&mut self, content: &Value) {
        self.final_text = None;
        let blocks = content.as_array().into_iter().flatten();
        self.has_prompt |=
            content.is_string() || blocks.clone().any(|block| text(block, "type") == Some("text"));
        let results = blocks.filter(|block| text(block, "type") == Some("tool_result"));
        self.answered.extend(results.filter_map(|block| Some(text(block, "tool_use_id")?.to_owned())));
    }

    fn apply_assistant_message(&mut self, line: &Value) {
        // The program writes this message itself when the model API fails.
        if line.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true) {
            self.final_text = None;
            return;
        }
        self.has_model_output = true;
        let message = &line["message"];
        let over = matches!(text(message, "stop_reason"), Some("end_turn" | "stop_sequence"));
        let words = message["content"].as_array().into_iter().flatten().rev();
        let words = words.filter_map(|block| text(block, "text")).next();
        self.final_text = words.filter(|_| over).map(str::to_owned);
    }

    /// Returns the last deferred call without a result.
    pub(super) fn open_call(&self) -> Option<&DeferredCall> {
        self.open.iter().rev().find(|deferred| !self.answered.contains(&deferred.id))
    }

    /// Returns whether the call has a result.
    pub(super) fn has_result(&self, id: &str) -> bool {
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

    fn transcript(lines: &[Value]) -> Transcript {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        Transcript::read(lines.join("\n").as_bytes())
    }

    fn assistant(stop: &str, text: &str) -> Value {
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
    fn a_deferred_call_is_open_until_its_result_is_written() {
        let open = transcript(&[assistant("tool_use", "I will."), deferred("a")]);
        assert!(open.open_call().is_some_and(|open| open.id == "a" && open.tool == "Bash"));
        assert_eq!(open.final_text, None);
        let over = transcript(&[
            assistant("tool_use", "I will."),
            deferred("a"),
            result("a"),
            assistant("end_turn", "done"),
        ]);
        assert!(over.open_call().is_none());
        assert!(over.has_result("a"));
        assert_eq!(over.final_text.as_deref(), Some("done"));
    }

    #[test]
    fn an_api_error_message_is_not_model_output() {
        let mut error = assistant("stop_sequence", "API Error");
        error["isApiErrorMessage"] = json!(true);
        let failed = transcript(&[json!({"type": "user", "message": {"content": "hello"}}), error]);
        assert!(!failed.has_model_output);
        assert_eq!(failed.final_text, None);
    }

    #[test]
    fn an_incomplete_line_is_ignored() {
        let mut text = deferred("a").to_string();
        text.push('\n');
        text.push_str(&result("a").to_string()[..30]);
        assert!(Transcript::read(text.as_bytes()).open_call().is_some());
    }
}
