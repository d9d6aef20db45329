//! Validation of the `model` of a definition.

use std::path::Path;

use holdpoint_agents::model::{EndpointSettings, KeyRef, from_definition};
use serde_json::{Value, json};

use crate::models::fake_endpoint::local;

fn with(member: &str, value: Value) -> Value {
    let mut model = json!({"provider": "openai", "model": "small", "baseUrl": "https://example.com/v1"});
    model[member] = value;
    model
}

#[test]
fn a_definition_can_set_all_options() {
    let model = json!({
        "provider": "openai", "model": "small", "baseUrl": "https://example.com/v1",
        "apiKey": {"file": "keys/openai"}, "headers": {"X-Title": "Test"},
        "temperature": 0.2, "maxTokens": 500, "options": {"topP": 0.5},
        "timeoutMs": 1000, "idleTimeoutMs": 200, "retries": 0, "retryBaseMs": 10, "maxReplyBytes": 4096, "stream": false,
    });
    let settings = EndpointSettings::parse(&model, Some(Path::new("/etc/agents"))).unwrap();
    assert_eq!(settings.api_key, Some(KeyRef::File("/etc/agents/keys/openai".into())));
    assert_eq!(Value::Object(settings.options), json!({"temperature": 0.2, "maxTokens": 500, "topP": 0.5}));
    assert_eq!((settings.timeout_ms, settings.idle_timeout_ms), (1000, 200));
    assert_eq!((settings.retries, settings.retry_base_ms, settings.reply_bytes_max), (0, 10, 4096));
    assert!(!settings.stream);
}

#[test]
fn an_invalid_definition_is_rejected_with_its_field_and_without_secret_values() {
    let step = |step: Value| json!({"provider": "scripted", "steps": [{"text": "a"}, [{"text": "b"}, step]]});
    let table = [
        (json!(7), "", "must be an object"),
        (json!({}), "provider", "is missing"),
        (
            json!({"provider": "canary"}),
            "provider",
            "must be \"openai\", \"openai-responses\", \"anthropic\" or \"scripted\"",
        ),
        (json!({"use": "canary"}), "use", "names no known connection"),
        (json!({"provider": "openai", "model": "m"}), "baseUrl", "is missing"),
        (with("model", json!("")), "model", "must not be empty"),
        (with("baseUrl", json!("ftp://canary.example/")), "baseUrl", "https://"),
        (with("baseUrl", json!("https://10.0.0.1/v1")), "baseUrl", "must not be called"),
        (with("apiKey", json!("sk-canary")), "apiKey", "in plain text is not accepted"),
        (with("apiKey", json!({"env": "A", "file": "B"})), "apiKey", "must be"),
        (with("apiKey", json!({"value": "sk-canary"})), "apiKey.value", "is not known"),
        (with("apiKey", json!({"env": 7})), "apiKey.env", "must be a string"),
        (with("headers", json!({"Host": "canary"})), "headers.Host", "is a header that cannot be set"),
        (
            with("headers", json!({"X-A": "canary\r\nX-B: c"})),
            "headers.X-A",
            "must be a string without control characters",
        ),
        (with("headers", json!({"X-A": {"key": "canary"}})), "headers.X-A.key", "is not known"),
        (with("temperature", json!("canary")), "temperature", "a number from 0 to 2"),
        (with("temperature", json!(2.5)), "temperature", "a number from 0 to 2"),
        (with("maxTokens", json!(0)), "maxTokens", "a whole number from 1"),
        (with("timeoutMs", json!(-1)), "timeoutMs", "a whole number from 1"),
        (with("retries", json!(11)), "retries", "a whole number from 0 to 10"),
        (
            with("options", json!({"streamOptions": {}})),
            "options.streamOptions",
            "cannot be set by a definition",
        ),
        (with("api_key", json!("sk-canary")), "api_key", "is not known"),
        (json!({"provider": "scripted"}), "steps", "is missing"),
        (json!({"provider": "scripted", "steps": {}}), "steps", "must be a list"),
        (step(json!({"say": "x"})), "steps[1][1].say", "is not known"),
        (
            step(json!({"calls": [{"name": "f"}, {"arguments": {}}]})),
            "steps[1][1].calls[1].name",
            "is missing",
        ),
        (
            step(json!({"calls": [{"name": "f", "arguments": []}]})),
            "steps[1][1].calls[0].arguments",
            "an object",
        ),
        (step(json!({"error": "fire"})), "steps[1][1].error", "one of unavailable"),
        (step(json!({"confidence": 2})), "steps[1][1].confidence", "from 0 to 1"),
        (step(json!({"if": {"moon": "full"}})), "steps[1][1].if.moon", "is not known"),
        (json!({"provider": "scripted", "file": "missing.json"}), "file", "cannot be read"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (model, field, message) in table {
        let flaw = from_definition(&model, Some(folder.path()), &local()).err().unwrap();
        assert_eq!(flaw.field, field, "{model}: {flaw}");
        assert!(flaw.message.contains(message), "{model}: {flaw}");
        assert!(!flaw.message.contains("sk-canary") && !flaw.message.contains("canary\r"), "{flaw}");
    }
}

#[test]
fn options_cannot_add_tools_or_state_of_the_provider() {
    for (provider, option) in [
        ("anthropic", "mcpServers"),
        ("anthropic", "system"),
        ("anthropic", "container"),
        ("openai-responses", "previousResponseId"),
        ("openai-responses", "conversation"),
        ("openai-responses", "store"),
        ("openai-responses", "instructions"),
        ("openai-responses", "tools"),
        ("openai", "webSearchOptions"),
        ("openai", "functions"),
        ("openai", "functionCall"),
        ("openai", "store"),
        ("openai", "tools"),
    ] {
        let model = json!({"provider": provider, "model": "m", "baseUrl": "https://example.com/v1", "options": {option: []}});
        let flaw = from_definition(&model, None, &local()).err().unwrap();
        assert_eq!(flaw.field, format!("options.{option}"), "{provider}");
    }
    let warm = json!({"provider": "anthropic", "model": "m", "baseUrl": "https://example.com/v1", "temperature": 1.5});
    assert_eq!(from_definition(&warm, None, &local()).err().unwrap().message, "must be a number from 0 to 1");
}

#[test]
fn only_files_of_the_operator_can_refer_to_files_and_the_environment() {
    let table = [
        (with("apiKey", json!({"env": "HOME"})), "apiKey"),
        (with("apiKey", json!({"file": "/etc/passwd"})), "apiKey"),
        (with("headers", json!({"X-A": {"env": "HOME"}})), "headers.X-A"),
        (json!({"provider": "scripted", "file": "/etc/passwd"}), "file"),
    ];
    for (model, field) in table {
        let flaw = from_definition(&model, None, &local()).err().unwrap();
        assert_eq!(
            (flaw.field.as_str(), flaw.message.as_str()),
            (field, "is only accepted in the operator's own files")
        );
    }
    assert!(from_definition(&with("headers", json!({"X-A": "text"})), None, &local()).is_ok());
}
