//! The interrupt of LangChain's middleware for human review: an action that waits for an approval. An interrupt with one
//! action is an approval of a tool call. One with several actions keeps its own form, because one answer decides all.

use serde_json::{Map, Value, json};

/// The only action of an interrupt.
pub(super) struct ReviewedAction<'a> {
    name: &'a str,
    arguments: &'a Value,
    description: Option<&'a str>,
    /// The middleware accepts other arguments.
    may_edit: bool,
}

impl<'a> ReviewedAction<'a> {
    /// Returns the action. None if the interrupt has another form, several actions, or does not offer both decisions.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        let ([action], [review]) = (list(value, "action_requests")?, list(value, "review_configs")?) else {
            return None;
        };
        let allowed = list(review, "allowed_decisions")?;
        let allows = |word: &str| allowed.iter().any(|one| one == word);
        let arguments = action.get("args").filter(|arguments| arguments.is_object())?;
        let found = Self {
            name: action.get("name")?.as_str()?,
            arguments,
            description: action.get("description").and_then(Value::as_str),
            may_edit: allows("edit"),
        };
        (allows("approve") && allows("reject")).then_some(found)
    }

    /// Returns the data of the approval.
    pub(super) fn data(&self) -> Value {
        let mut data = Map::new();
        data.insert("tool".to_owned(), json!(self.name));
        data.insert("input".to_owned(), self.arguments.clone());
        if let Some(description) = self.description {
            data.insert("description".to_owned(), json!(description));
        }
        if !self.may_edit {
            data.insert("editable".to_owned(), json!(false));
        }
        Value::Object(data)
    }

    /// Returns the decision about the approval as the middleware expects it.
    pub(super) fn to_decisions(&self, answer: Value) -> Value {
        let decision = match answer.get("decision").and_then(Value::as_str) {
            Some("approve") => json!({ "type": "approve" }),
            Some("edit") => {
                let arguments = answer.get("input").unwrap_or(self.arguments);
                json!({ "type": "edit", "edited_action": { "name": self.name, "args": arguments } })
            }
            Some("reject") => match answer.get("reason").filter(|reason| reason.is_string()) {
                Some(reason) => json!({ "type": "reject", "message": reason }),
                None => json!({ "type": "reject" }),
            },
            _ => return answer,
        };
        json!({ "decisions": [decision] })
    }
}

fn list<'a>(value: &'a Value, member: &str) -> Option<&'a [Value]> {
    value.get(member)?.as_array().map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(allowed: &Value) -> Value {
        json!({"action_requests": [{"name": "send", "args": {"to": "bob"}, "description": "Tool execution"}],
            "review_configs": [{"action_name": "send", "allowed_decisions": allowed}]})
    }

    #[test]
    fn a_single_action_is_an_approval_of_its_call() {
        let value = interrupt(&json!(["approve", "edit", "reject"]));
        let action = ReviewedAction::of(&value).unwrap();
        let expected = json!({"tool": "send", "input": {"to": "bob"}, "description": "Tool execution"});
        assert_eq!(action.data(), expected);
        let fixed = interrupt(&json!(["approve", "reject"]));
        assert_eq!(ReviewedAction::of(&fixed).unwrap().data()["editable"], false);
    }

    #[test]
    fn decisions_have_the_form_of_the_middleware() {
        let value = interrupt(&json!(["approve", "edit", "reject"]));
        let decided =
            |answer| ReviewedAction::of(&value).unwrap().to_decisions(answer)["decisions"][0].clone();
        assert_eq!(decided(json!({"decision": "approve"})), json!({"type": "approve"}));
        let edited = json!({"type": "edit", "edited_action": {"name": "send", "args": {"to": "eve"}}});
        assert_eq!(decided(json!({"decision": "edit", "input": {"to": "eve"}})), edited);
        let rejected = json!({"decision": "reject", "reason": "no"});
        assert_eq!(decided(rejected), json!({"type": "reject", "message": "no"}));
        assert_eq!(decided(json!({"decision": "reject", "reason": null})), json!({"type": "reject"}));
    }

    #[test]
    fn other_interrupts_keep_their_form() {
        let mut two = interrupt(&json!(["approve", "reject"]));
        two["action_requests"].as_array_mut().unwrap().push(json!({"name": "x", "args": {}}));
        for value in [two, interrupt(&json!(["approve"])), json!({"action_requests": []}), json!("x")] {
            assert!(ReviewedAction::of(&value).is_none(), "{value}");
        }
    }
}
