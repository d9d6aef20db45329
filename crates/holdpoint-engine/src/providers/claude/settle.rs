//! What a turn of the program came to, from what was heard of it.

use serde_json::{Map, Value, json};

use super::super::{Trouble, code};
use super::dialogue::{Cut, Heard};
use super::hygiene::scrubbed;
use super::reference::Deferred;

pub(super) enum Settled {
    Deferred(Deferred),
    Done(Value),
}

/// Whether it failed is asked first: a failed turn may carry everything that a good one does.
pub(super) fn settle(heard: &Heard) -> Result<Settled, Trouble> {
    let Some(result) = &heard.result else { return Err(without_result(heard)) };
    if result["is_error"].as_bool() != Some(false) {
        return Err(match heard.cut {
            Some(cut) => cut_short(cut),
            None => failed(result),
        });
    }
    if result["stop_reason"] == "tool_deferred" {
        return deferred(&result["deferred_tool_use"]).map(Settled::Deferred);
    }
    Ok(Settled::Done(output(result)))
}

fn deferred(call: &Value) -> Result<Deferred, Trouble> {
    let (Some(id), Some(tool)) = (call["id"].as_str(), call["name"].as_str()) else {
        return Err(Trouble::lasting(code::VERSION, "the agent paused without saying what for"));
    };
    let (id, tool, input) = (id.to_owned(), tool.to_owned(), call["input"].clone());
    Ok(Deferred { id, tool, input, attempt: String::new() })
}

/// What the agent said at last, and what it took. No names of its own.
fn output(result: &Value) -> Value {
    let mut output = Map::new();
    output.insert("result".to_owned(), result.get("result").cloned().unwrap_or_default());
    let counted = |name: &str| result["usage"].get(name).filter(|count| count.is_u64()).cloned();
    let counts = [
        ("inputTokens", "input_tokens"),
        ("outputTokens", "output_tokens"),
        ("cacheReadInputTokens", "cache_read_input_tokens"),
        ("cacheCreationInputTokens", "cache_creation_input_tokens"),
    ];
    let usage: Map<String, Value> =
        counts.iter().filter_map(|(ours, theirs)| Some(((*ours).to_owned(), counted(theirs)?))).collect();
    if !usage.is_empty() {
        output.insert("usage".to_owned(), Value::Object(usage));
    }
    if let Some(cost) = result.get("total_cost_usd").filter(|cost| cost.is_number()) {
        output.insert("costUsd".to_owned(), cost.clone());
    }
    Value::Object(output)
}

/// What is known of an end that was only read.
pub(super) fn read_output(words: &str) -> Value {
    json!({ "result": words })
}

fn failed(result: &Value) -> Trouble {
    if result["stop_reason"] == "tool_deferred_unavailable" {
        let tool = result["deferred_tool_use"]["name"].as_str().unwrap_or("a tool");
        let message = format!("the tool {tool} that waits for a decision is not there any longer");
        return Trouble::lasting(code::MISCONFIGURED, message);
    }
    let said = words(result);
    if result["terminal_reason"] == "api_error" || result.get("api_error_status").is_some_and(Value::is_u64) {
        return api_error(result["api_error_status"].as_u64(), &said);
    }
    if said.contains("No conversation found") {
        return Trouble::lasting(code::STATE_LOST, "the agent does not know the session any longer");
    }
    match result["subtype"].as_str().and_then(|subtype| subtype.strip_prefix("error_")) {
        Some("during_execution") | None => {
            Trouble::passing(code::CRASHED, format!("the agent was stopped by an error: {}", scrubbed(&said)))
        }
        // It went as far as it may: so many turns, so much money.
        Some(limit) => {
            Trouble::lasting(code::GRAPH, format!("the agent gave up ({limit}): {}", scrubbed(&said)))
        }
    }
}

fn words(result: &Value) -> String {
    let errors = result["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let said: Vec<&str> = errors.chain(result["result"].as_str()).collect();
    said.join("; ")
}

fn api_error(status: Option<u64>, said: &str) -> Trouble {
    match status {
        Some(status @ (401 | 403)) => {
            Trouble::lasting(code::AUTH, format!("the model's API refuses our key: it answered {status}"))
        }
        Some(status) if status == 408 || status == 429 || status >= 500 => {
            Trouble::passing(code::UNREACHABLE, format!("the model's API answered {status}"))
        }
        Some(status) => {
            let message =
                format!("the model's API refused the request: it answered {status}: {}", scrubbed(said));
            Trouble::lasting(code::REJECTED, message)
        }
        // Without a key the program does not even ask.
        None if said.contains("/login") || said.contains("API key") => {
            Trouble::lasting(code::AUTH, "the agent has no key for the model's API that it can use")
        }
        None => Trouble::passing(code::UNREACHABLE, "the model's API cannot be reached"),
    }
}

fn without_result(heard: &Heard) -> Trouble {
    if let Some(cut) = heard.cut {
        return cut_short(cut);
    }
    if heard.complaints.contains("already in use") {
        return Trouble::passing(code::BUSY, "the session was begun before");
    }
    let why = scrubbed(&heard.complaints);
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    Trouble::passing(code::CRASHED, format!("the agent's program ended without a result{why}"))
}

fn cut_short(cut: Cut) -> Trouble {
    match cut {
        Cut::Silent => Trouble::passing(
            code::TIMEOUT,
            "the agent's program said nothing in the time that it has for that",
        ),
        Cut::Late => {
            Trouble::lasting(code::TIMEOUT, "the agent did not pause or end in the time of the turn")
        }
        Cut::TooMuch => Trouble::lasting(code::CRASHED, "the agent's program said more than is taken"),
        Cut::NoGate => {
            let message = "the agent's program does not take the hook that brings its calls to people";
            Trouble::lasting(code::VERSION, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(result: Value) -> Trouble {
        let heard = Heard { result: Some(result), ..Heard::default() };
        settle(&heard).err().unwrap()
    }

    #[test]
    fn a_failed_turn_is_no_pause_whatever_it_carries() {
        let call = json!({"id": "toolu_1", "name": "Bash", "input": {}});
        let gone = trouble(json!({"is_error": true, "stop_reason": "tool_deferred_unavailable",
            "deferred_tool_use": call}));
        assert_eq!((gone.code, gone.passing), (code::MISCONFIGURED, false));
    }

    #[test]
    fn failures_of_the_api_are_told_apart() {
        for (status, code, passing) in [
            (json!(401), code::AUTH, false),
            (json!(403), code::AUTH, false),
            (json!(429), code::UNREACHABLE, true),
            (json!(529), code::UNREACHABLE, true),
            (json!(400), code::REJECTED, false),
            (Value::Null, code::UNREACHABLE, true),
        ] {
            let said =
                trouble(json!({"is_error": true, "subtype": "success", "terminal_reason": "api_error",
                "api_error_status": status, "result": "API Error: req_011CabcdEFGH"}));
            assert_eq!((said.code, said.passing), (code, passing), "{status}");
            assert!(!said.message.contains("req_"), "{}", said.message);
        }
    }

    #[test]
    fn an_agent_that_went_as_far_as_it_may_has_failed_and_one_that_broke_may_be_tried_again() {
        let told = |subtype: &str| trouble(json!({"is_error": true, "subtype": subtype, "errors": ["x"]}));
        assert_eq!(told("error_max_turns").code, code::GRAPH);
        for subtype in ["error_during_execution", "success"] {
            assert_eq!((told(subtype).code, told(subtype).passing), (code::CRASHED, true));
        }
        let lost = json!({"is_error": true, "subtype": "error_during_execution",
            "errors": ["No conversation found with session ID: 0193"]});
        assert_eq!(trouble(lost).code, code::STATE_LOST);
    }

    #[test]
    fn a_pause_is_known_by_its_stop_reason() {
        let call = json!({"id": "toolu_1", "name": "Bash", "input": {"command": "ls"}});
        let result = json!({"is_error": false, "stop_reason": "tool_deferred", "deferred_tool_use": call});
        let heard = Heard { result: Some(result), ..Heard::default() };
        assert!(matches!(settle(&heard), Ok(Settled::Deferred(call)) if call.tool == "Bash"));
        let done = json!({"is_error": false, "stop_reason": "end_turn", "terminal_reason": "tool_deferred",
            "result": "ok", "session_id": "s", "total_cost_usd": 0.5, "usage": {"input_tokens": 3, "service_tier": "x"}});
        let heard = Heard { result: Some(done), ..Heard::default() };
        let Ok(Settled::Done(output)) = settle(&heard) else { panic!("it has ended") };
        assert_eq!(output, json!({"result": "ok", "usage": {"inputTokens": 3}, "costUsd": 0.5}));
    }
}
