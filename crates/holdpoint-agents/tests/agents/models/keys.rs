//! API keys: they are read for each call and never shown.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use holdpoint_agents::model::{
    EndpointApi, EndpointModel, HeaderText, KeyRef, ModelError, SecretText, from_definition,
};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::models::fake_endpoint::{FakeEndpoint, Turn, ask, ends, header, local, piece, prompt, text_reply};

const CANARY: &str = "sk-canary-4711";

/// Collects the log of this thread, at all levels.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut self.clone());
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_key_never_appears_in_errors_or_logs() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), CANARY).unwrap();
    let repeated = json!({"error": {"message": format!("{CANARY} is wrong, Bearer {CANARY}")}});
    let unparsable = format!("<p>{}{CANARY}</p>", "x".repeat(390));
    let in_stream = format!("data: {repeated}\n\n");
    let broken = format!("data: {{\"{CANARY}\"\n\n");
    let refusal = piece(json!({"refusal": format!("I know {CANARY}.")}));
    for turn in [
        Turn::json(401, &repeated),
        Turn::json(400, &repeated),
        Turn::json(500, &repeated),
        Turn::answer(502, &[], [unparsable]),
        Turn::stream([in_stream]),
        Turn::stream([broken]),
        Turn::stream([refusal, ends("stop")]),
        Turn::json(301, &repeated),
    ] {
        let endpoint = FakeEndpoint::with([turn.clone()]).await;
        let mut settings = endpoint.settings();
        settings.api_key = Some(KeyRef::File(folder.path().join("key")));
        settings.headers = vec![
            ("x-also".to_owned(), HeaderText::Text(SecretText::new(format!("{CANARY}-too")))),
            ("x-other".to_owned(), HeaderText::Key(KeyRef::File(folder.path().join("key")))),
        ];
        settings.base_url = format!("{}?key={CANARY}", settings.base_url);
        let shown = format!("{settings:?} {:?} {:?}", settings.api_key, settings.headers);
        let model = EndpointModel::new(settings, local()).unwrap();
        let shown = format!("{shown} {model:?}");
        let (reply, _) = ask(&model, &prompt("hello")).await;
        let failed = reply.unwrap_err();
        for text in [failed.to_string(), format!("{failed:?}"), shown] {
            assert!(!text.contains("canary"), "{turn:?}: {text}");
        }
        let request = &endpoint.requests()[0];
        assert_eq!(header(request, "authorization").unwrap(), format!("Bearer {CANARY}"), "the key is sent");
        assert!(request.starts_with(&format!("POST /v1/chat/completions?key={CANARY} ")), "{request}");
    }
    let logged = log.0.lock().unwrap().clone();
    assert!(logged.contains("retrying a call of a model"), "the log is collected: {logged}");
    assert!(!logged.contains("canary"), "{logged}");
}

#[tokio::test]
async fn a_key_in_the_address_is_hidden_in_errors() {
    let endpoint = FakeEndpoint::with([Turn::json(400, &json!({"error": format!("no {CANARY}")}))]).await;
    let mut settings = endpoint.settings();
    settings.base_url = format!("{}?key={CANARY}", settings.base_url);
    let (reply, _) = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await;
    assert_eq!(reply, Err(ModelError::BadRequest("no [hidden] (status 400)".to_owned())));
}

#[tokio::test]
async fn a_changed_key_is_used_from_the_next_call_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let endpoint = FakeEndpoint::with([text_reply("Hello.")]).await;
    let mut settings = endpoint.settings();
    settings.api_key = Some(KeyRef::File(file.clone()));
    let model = EndpointModel::new(settings, local()).unwrap();
    for key in ["first", " second\n"] {
        std::fs::write(&file, key).unwrap();
        ask(&model, &prompt("hello")).await.0.unwrap();
    }
    let sent: Vec<_> =
        endpoint.requests().iter().map(|request| header(request, "authorization").unwrap()).collect();
    assert_eq!(sent, ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn no_api_shows_a_key_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), CANARY).unwrap();
    let error = json!({"type": "error", "code": "x", "error": {"type": "api_error", "message": CANARY}});
    let failed = json!({"status": "failed", "error": {"code": "server_error", "message": CANARY}});
    for api in [EndpointApi::Messages, EndpointApi::Responses] {
        for turn in [
            Turn::json(401, &error),
            Turn::json(200, &error),
            Turn::json(200, &failed),
            Turn::stream([format!("data: {error}\n\n")]),
            Turn::stream([format!(
                "data: {}\n\n",
                json!({"type": "response.refusal.delta", "delta": CANARY})
            )]),
        ] {
            let endpoint = FakeEndpoint::with([turn.clone()]).await;
            let mut settings = endpoint.settings_of(api);
            settings.api_key = Some(KeyRef::File(folder.path().join("key")));
            settings.retries = 0;
            let model = EndpointModel::new(settings, local()).unwrap();
            let failed = ask(&model, &prompt("hello")).await.0.unwrap_err();
            assert!(!format!("{failed} {failed:?} {model:?}").contains("canary"), "{turn:?}: {failed}");
            assert!(endpoint.requests()[0].contains(CANARY), "the key is sent");
        }
    }
}

#[tokio::test]
async fn a_missing_or_invalid_key_fails_before_the_request_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = FakeEndpoint::with([text_reply("Hello.")]).await;
    let written = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        KeyRef::File(folder.path().join(name))
    };
    for key in [
        KeyRef::Env("HOLDPOINT_NOT_SET_ANYWHERE".to_owned()),
        KeyRef::File(folder.path().join("missing")),
        written("empty", b" \n"),
        written("two-lines", b"canary\r\nHost: elsewhere"),
        written("not-text", b"\xff\xfe"),
    ] {
        let mut settings = endpoint.settings();
        settings.api_key = Some(key.clone());
        let (reply, _) = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await;
        let failed = reply.unwrap_err();
        assert!(matches!(failed, ModelError::Unauthorized(_)), "{key:?}: {failed:?}");
        let message = failed.to_string();
        assert!(
            !message.contains("canary") && !message.contains(folder.path().to_str().unwrap()),
            "{message}"
        );
    }
    assert!(endpoint.requests().is_empty());
}

#[tokio::test]
async fn keys_from_the_environment_can_be_sent_in_any_header() {
    let endpoint = FakeEndpoint::with([text_reply("Hello.")]).await;
    // Every test runner sets this variable.
    let key = json!({"env": "CARGO_PKG_NAME"});
    let model = json!({
        "provider": "openai",
        "model": "small",
        "baseUrl": format!("http://{}/v1/", endpoint.address),
        "headers": {"api-key": key, "X-Title": "Test"},
    });
    let folder = tempfile::tempdir().unwrap();
    let model = from_definition(&model, Some(folder.path()), &local()).unwrap();
    ask(model.as_ref(), &prompt("hello")).await.0.unwrap();
    let request = &endpoint.requests()[0];
    assert!(request.starts_with("POST /v1/chat/completions "), "{request}");
    assert_eq!(header(request, "api-key").as_deref(), Some("holdpoint-agents"));
    assert_eq!(header(request, "x-title").as_deref(), Some("Test"));
    assert_eq!(header(request, "authorization"), None);
}
