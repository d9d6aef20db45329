//! Interprets the output of a program: the end of a turn, or an error.

use serde_json::{Map, Value, json};

use super::super::{ProviderError, code};
use super::dialogue::{AbortReason, ProgramOutput};
use super::redaction::scrubbed;
use super::reference::DeferredCall;

pub(super) enum TurnEnd {
    Deferred(DeferredCall),
    Done(Value),
}

/// Returns the end of the turn. Checks for errors first, because a failed result can contain all members of a good one.
pub(super) fn interpret(program_output: &ProgramOutput) -> Result<TurnEnd, ProviderError> {
    let Some(result) = &program_output.result else { return Err(missing_result_error(program_output)) };
    if result["is_error"].as_bool() != Some(false) {
        return Err(match program_output.aborted {
            Some(reason) => abort_error(reason),
            None => result_error(result),
        });
    }
    if result["stop_reason"] == "tool_deferred" {
        return deferred(&result["deferred_tool_use"]).map(TurnEnd::Deferred);
    }
    Ok(TurnEnd::Done(output(result)))
}

fn deferred(call: &Value) -> Result<DeferredCall, ProviderError> {
    let (Some(id), Some(tool)) = (call["id"].as_str(), call["name"].as_str()) else {
        return Err(ProviderError::permanent(
            code::VERSION,
            "the result of the agent does not name the deferred call",
        ));
    };
    let (id, tool, input) = (id.to_owned(), tool.to_owned(), call["input"].clone());
    Ok(DeferredCall { id, tool, input, attempt: String::new() })
}

/// Returns the final text of the agent with usage and cost, without ids of the agent.
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

/// Returns the output of a session whose end was read from the transcript, without usage.
pub(super) fn output_from_transcript(words: &str) -> Value {
    json!({ "result": words })
}

fn result_error(result: &Value) -> ProviderError {
    if result["stop_reason"] == "tool_deferred_unavailable" {
        let tool = result["deferred_tool_use"]["name"].as_str().unwrap_or("a tool");
        let message = format!("the tool {tool} of the deferred call is no longer available");
        return ProviderError::permanent(code::MISCONFIGURED, message);
    }
    let text = error_text(result);
    if result["terminal_reason"] == "api_error" || result.get("api_error_status").is_some_and(Value::is_u64) {
        return api_error(result["api_error_status"].as_u64(), &text);
    }
    if text.contains("No conversation found") {
        return ProviderError::permanent(code::STATE_LOST, "the agent no longer has the session");
    }
    match result["subtype"].as_str().and_then(|subtype| subtype.strip_prefix("error_")) {
        Some("during_execution") | None => ProviderError::transient(
            code::CRASHED,
            format!("the agent was stopped by an error: {}", scrubbed(&text)),
        ),
        // A limit of the agent: turns or cost.
        Some(limit) => ProviderError::permanent(
            code::GRAPH,
            format!("the agent reached a limit ({limit}): {}", scrubbed(&text)),
        ),
    }
}

fn error_text(result: &Value) -> String {
    let errors = result["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let texts: Vec<&str> = errors.chain(result["result"].as_str()).collect();
    texts.join("; ")
}

fn api_error(status: Option<u64>, text: &str) -> ProviderError {
    match status {
        Some(status @ (401 | 403)) => ProviderError::permanent(
            code::AUTH,
            format!("the model API rejected the key with status {status}"),
        ),
        Some(status) if status == 408 || status == 429 || status >= 500 => ProviderError::transient(
            code::UNREACHABLE,
            format!("the model API responded with status {status}"),
        ),
        Some(status) => {
            let message =
                format!("the model API rejected the request with status {status}: {}", scrubbed(text));
            ProviderError::permanent(code::REJECTED, message)
        }
        // Without a key the program does not call the API.
        None if text.contains("/login") || text.contains("API key") => {
            ProviderError::permanent(code::AUTH, "the agent has no usable key for the model API")
        }
        None => ProviderError::transient(code::UNREACHABLE, "the model API is unreachable"),
    }
}

fn missing_result_error(program_output: &ProgramOutput) -> ProviderError {
    if let Some(reason) = program_output.aborted {
        return abort_error(reason);
    }
    if program_output.stderr.contains("already in use") {
        return ProviderError::transient(code::BUSY, "the session id is already in use");
    }
    let why = scrubbed(&program_output.stderr);
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    ProviderError::transient(code::CRASHED, format!("the agent's program ended without a result{why}"))
}

fn abort_error(reason: AbortReason) -> ProviderError {
    match reason {
        AbortReason::NoOutput => {
            ProviderError::transient(code::TIMEOUT, "the agent's program wrote no output within firstEventMs")
        }
        AbortReason::TimedOut => ProviderError::permanent(
            code::TIMEOUT,
            "the agent neither deferred a call nor ended within the time limit of the turn",
        ),
        AbortReason::TooMuchOutput => ProviderError::permanent(
            code::CRASHED,
            "the output of the agent's program exceeds the size limit",
        ),
        AbortReason::HookRejected => {
            let message = "the agent's program rejected the permission hook";
            ProviderError::permanent(code::VERSION, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(result: Value) -> ProviderError {
        let program_output = ProgramOutput { result: Some(result), ..ProgramOutput::default() };
        interpret(&program_output).err().unwrap()
    }

    #[test]
    fn a_failed_result_with_a_deferred_call_is_an_error() {
        let call = json!({"id": "toolu_1", "name": "Bash", "input": {}});
        let gone = error_of(json!({"is_error": true, "stop_reason": "tool_deferred_unavailable",
            "deferred_tool_use": call}));
        assert_eq!((gone.code, gone.is_transient), (code::MISCONFIGURED, false));
    }

    #[test]
    fn api_errors_map_to_distinct_codes() {
        for (status, code, is_transient) in [
            (json!(401), code::AUTH, false),
            (json!(403), code::AUTH, false),
            (json!(429), code::UNREACHABLE, true),
            (json!(529), code::UNREACHABLE, true),
            (json!(400), code::REJECTED, false),
            (Value::Null, code::UNREACHABLE, true),
        ] {
            let error =
                error_of(json!({"is_error": true, "subtype": "success", "terminal_reason": "api_error",
                "api_error_status": status, "result": "API Error: req_011CabcdEFGH"}));
            assert_eq!((error.code, error.is_transient), (code, is_transient), "{status}");
            assert!(!error.message.contains("req_"), "{}", error.message);
        }
    }

    #[test]
    fn reached_limits_are_permanent_and_crashes_are_transient() {
        let error = |subtype: &str| error_of(json!({"is_error": true, "subtype": subtype, "errors": ["x"]}));
        assert_eq!(error("error_max_turns").code, code::GRAPH);
        for subtype in ["error_during_execution", "success"] {
            assert_eq!((error(subtype).code, error(subtype).is_transient), (code::CRASHED, true));
        }
        let lost = json!({"is_error": true, "subtype": "error_during_execution",
            "errors": ["No conversation found with session ID: 0193"]});
        assert_eq!(error_of(lost).code, code::STATE_LOST);
    }

    #[test]
    fn the_stop_reason_identifies_a_deferred_call() {
        let call = json!({"id": "toolu_1", "name": "Bash", "input": {"command": "ls"}});
        let result = json!({"is_error": false, "stop_reason": "tool_deferred", "deferred_tool_use": call});
        let program_output = ProgramOutput { result: Some(result), ..ProgramOutput::default() };
        assert!(matches!(interpret(&program_output), Ok(TurnEnd::Deferred(call)) if call.tool == "Bash"));
        let done = json!({"is_error": false, "stop_reason": "end_turn", "terminal_reason": "tool_deferred",
            "result": "ok", "session_id": "s", "total_cost_usd": 0.5, "usage": {"input_tokens": 3, "service_tier": "x"}});
        let program_output = ProgramOutput { result: Some(done), ..ProgramOutput::default() };
        let Ok(TurnEnd::Done(output)) = interpret(&program_output) else {
            panic!("expected the end of the turn")
        };
        assert_eq!(output, json!({"result": "ok", "usage": {"inputTokens": 3}, "costUsd": 0.5}));
    }
}
