//! Keys are read for every call and shown to nobody.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use holdpoint_engine::agent::model::{HeaderText, KeyRef, ModelError, OpenAi, Secret, from_definition};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::stand_in::{StandIn, Turn, ask, ends, header, local, piece, prompt, says};

const CANARY: &str = "sk-canary-4711";

/// Everything that is logged, on any level, by this thread.
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
async fn a_key_never_appears_in_what_is_told_or_logged() {
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
        let stand_in = StandIn::with([turn.clone()]).await;
        let mut settings = stand_in.settings();
        settings.api_key = Some(KeyRef::File(folder.path().join("key")));
        settings.headers = vec![
            ("x-also".to_owned(), HeaderText::Text(Secret::new(format!("{CANARY}-too")))),
            ("x-other".to_owned(), HeaderText::Key(KeyRef::File(folder.path().join("key")))),
        ];
        settings.base_url = format!("{}?key={CANARY}", settings.base_url);
        let shown = format!("{settings:?} {:?} {:?}", settings.api_key, settings.headers);
        let model = OpenAi::new(settings, local()).unwrap();
        let shown = format!("{shown} {model:?}");
        let (reply, _) = ask(&model, &prompt("hello")).await;
        let failed = reply.unwrap_err();
        for told in [failed.to_string(), format!("{failed:?}"), shown] {
            assert!(!told.contains("canary"), "{turn:?}: {told}");
        }
        let heard = &stand_in.heard()[0];
        assert_eq!(header(heard, "authorization").unwrap(), format!("Bearer {CANARY}"), "it was used");
        assert!(heard.starts_with(&format!("POST /v1/chat/completions?key={CANARY} ")), "{heard}");
    }
    let logged = log.0.lock().unwrap().clone();
    assert!(logged.contains("a model is asked again"), "the log was heard: {logged}");
    assert!(!logged.contains("canary"), "{logged}");
}

#[tokio::test]
async fn a_key_in_the_address_is_not_told_either() {
    let stand_in = StandIn::with([Turn::json(400, &json!({"error": format!("no {CANARY}")}))]).await;
    let mut settings = stand_in.settings();
    settings.base_url = format!("{}?key={CANARY}", settings.base_url);
    let (reply, _) = ask(&OpenAi::new(settings, local()).unwrap(), &prompt("hello")).await;
    assert_eq!(reply, Err(ModelError::BadRequest("no [hidden] (status 400)".to_owned())));
}

#[tokio::test]
async fn a_key_that_was_changed_counts_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let stand_in = StandIn::with([says("Hello.")]).await;
    let mut settings = stand_in.settings();
    settings.api_key = Some(KeyRef::File(file.clone()));
    let model = OpenAi::new(settings, local()).unwrap();
    for key in ["first", " second\n"] {
        std::fs::write(&file, key).unwrap();
        ask(&model, &prompt("hello")).await.0.unwrap();
    }
    let sent: Vec<_> = stand_in.heard().iter().map(|heard| header(heard, "authorization").unwrap()).collect();
    assert_eq!(sent, ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn a_key_that_is_not_there_or_cannot_be_sent_is_told_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = StandIn::with([says("Hello.")]).await;
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
        let mut settings = stand_in.settings();
        settings.api_key = Some(key.clone());
        let (reply, _) = ask(&OpenAi::new(settings, local()).unwrap(), &prompt("hello")).await;
        let failed = reply.unwrap_err();
        assert!(matches!(failed, ModelError::Unauthorized(_)), "{key:?}: {failed:?}");
        let told = failed.to_string();
        assert!(!told.contains("canary") && !told.contains(folder.path().to_str().unwrap()), "{told}");
    }
    assert!(stand_in.heard().is_empty());
}

#[tokio::test]
async fn keys_come_from_the_environment_and_into_any_header() {
    let stand_in = StandIn::with([says("Hello.")]).await;
    // Whatever runs tests sets this one.
    let key = json!({"env": "CARGO_PKG_NAME"});
    let model = json!({
        "provider": "openai",
        "model": "small",
        "baseUrl": format!("http://{}/v1/", stand_in.address),
        "headers": {"api-key": key, "X-Title": "Test"},
    });
    let folder = tempfile::tempdir().unwrap();
    let model = from_definition(&model, Some(folder.path()), &local()).unwrap();
    ask(model.as_ref(), &prompt("hello")).await.0.unwrap();
    let heard = &stand_in.heard()[0];
    assert!(heard.starts_with("POST /v1/chat/completions "), "{heard}");
    assert_eq!(header(heard, "api-key").as_deref(), Some("holdpoint-engine"));
    assert_eq!(header(heard, "x-title").as_deref(), Some("Test"));
    assert_eq!(header(heard, "authorization"), None);
}
