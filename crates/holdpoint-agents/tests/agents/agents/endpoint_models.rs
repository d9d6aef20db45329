//! Agents with models behind endpoints: fallbacks, attachments, and confidence that leads to an interrupt.

use holdpoint_agents::{AgentInput, AgentRuntime, AgentSettings, Connection, Connections, EngineAgents};
use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::agent::{Message, Role};
use serde_json::{Value, json};

use super::{AgentEnv, Calls, input};
use crate::models::fake_endpoint::{FakeEndpoint, Turn, ends, piece, text_reply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, tenant};

on_both! {
    a_definition_cannot_name_the_address_or_the_key_of_a_fallback,
    a_fallback_of_the_definition_replies_while_the_model_is_unavailable,
    a_reply_that_the_model_rates_low_waits_for_an_approver,
    a_reply_without_a_rating_waits_for_an_approver,
    an_attachment_that_is_not_accepted_fails_its_run_and_not_the_thread,
}

/// An environment with the connections `main` and `backup`.
async fn env_with(database: TestDatabase, main: &FakeEndpoint, backup: &FakeEndpoint) -> AgentEnv {
    let model = |endpoint: &FakeEndpoint| {
        let url = format!("http://{}/v1", endpoint.address);
        let model = json!({ "provider": "openai", "model": "small", "baseUrl": url, "retries": 0 });
        Connection::model(model).unwrap()
    };
    let models = [("main".to_owned(), model(main)), ("backup".to_owned(), model(backup))];
    let connections = Connections { models: models.into(), ..Connections::default() };
    let settings = AgentSettings { connections, ..AgentSettings::default() };
    let env = TestEnv::with(database, |options| options.extension(AgentRuntime::new(settings))).await;
    AgentEnv { env, calls: Calls::default() }
}

fn definition(model: Value, more: Value) -> Value {
    let mut definition = json!({ "agentId": "clerk", "model": model });
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    definition
}

async fn last_reply(agents: &AgentEnv, of: &RunRef) -> (&'static str, String) {
    let reply = agents.agent(of).await.last_reply().map(Message::text).unwrap_or_default();
    (agents.env.status(of).await, reply)
}

async fn a_definition_cannot_name_the_address_or_the_key_of_a_fallback(database: TestDatabase) {
    let endpoint = FakeEndpoint::with([text_reply("x")]).await;
    let agents = env_with(database, &endpoint, &endpoint).await;
    for (fallbacks, field) in [
        (json!([{ "provider": "openai", "model": "m", "baseUrl": "http://evil.example" }]), "[0].baseUrl"),
        (json!([{ "use": "backup" }, { "use": "backup", "apiKey": { "env": "HOME" } }]), "[1].apiKey"),
        (json!([{ "use": "backup", "headers": {} }]), "[0].headers"),
        (json!([{ "provider": "scripted", "file": "/etc/passwd" }]), "[0].file"),
        (json!([{ "use": "backup", "fallbacks": [] }]), "[0].fallbacks"),
        (json!([{ "use": "agent:mailer:model" }]), "[0].use"),
        (json!({ "use": "backup" }), "fallbacks"),
    ] {
        let definition = definition(json!({ "use": "main", "fallbacks": fallbacks }), json!({}));
        let refused = agents.env.engine.agents().put(&tenant(), definition, None).await.unwrap_err();
        assert!(refused.to_string().contains(field), "{fallbacks}: {refused}");
    }
    let unknown = json!({ "use": "main", "fallbacks": [{ "use": "nothing" }] });
    agents.declare(definition(unknown, json!({}))).await;
    let of = agents.send(None, "please").await;
    assert_eq!(agents.env.status(&of).await, "failed");
    assert!(endpoint.requests().is_empty());
}

async fn a_fallback_of_the_definition_replies_while_the_model_is_unavailable(database: TestDatabase) {
    let unavailable = FakeEndpoint::with([Turn::json(503, &json!({ "error": "Unavailable" }))]).await;
    let backup = FakeEndpoint::with([text_reply("From the backup.")]).await;
    let agents = env_with(database, &unavailable, &backup).await;
    let model = json!({ "use": "main", "fallbacks": [{ "use": "backup", "model": "large" }] });
    agents.declare(definition(model, json!({}))).await;
    let of = agents.send(None, "please").await;
    assert_eq!(last_reply(&agents, &of).await, ("completed", "From the backup.".to_owned()));
    assert_eq!((unavailable.requests().len(), &backup.body(0)["model"]), (1, &json!("large")));
}

fn rated(text: &str, confidence: f64) -> Turn {
    let arguments = json!({ "confidence": confidence }).to_string();
    let function = json!({ "name": "report_confidence", "arguments": arguments });
    let call = json!({ "tool_calls": [{ "index": 0, "id": "r1", "function": function }] });
    Turn::stream([piece(json!({ "content": text })), piece(call), ends("tool_calls")])
}

async fn a_reply_that_the_model_rates_low_waits_for_an_approver(database: TestDatabase) {
    let endpoint = FakeEndpoint::with([rated("It is five.", 0.6), rated("It is six.", 0.95)]).await;
    let agents = env_with(database, &endpoint, &endpoint).await;
    let rule = json!({ "confidence": "self_rated", "escalationThreshold": 0.8 });
    agents.declare(definition(json!({ "use": "main" }), rule)).await;
    let of = agents.send(None, "please").await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    let run = agents.env.run(&of).await;
    let interrupt = run.open_interrupts().next().unwrap();
    let (data, kind) = (&interrupt.data, interrupt.kind.as_str());
    assert_eq!(
        (kind, &data["observed"], &data["decision"]),
        ("low-confidence", &json!(0.6), &json!("It is five."))
    );
    assert!(agents.agent(&of).await.calls.is_empty(), "the rating is not a call");
    agents.env.answer(&of, "agent", accept()).await.unwrap();
    agents.env.drain().await;
    assert_eq!(last_reply(&agents, &of).await, ("completed", "It is five.".to_owned()));
    let sure = agents.send(None, "again").await;
    assert_eq!(last_reply(&agents, &sure).await, ("completed", "It is six.".to_owned()));
}

async fn a_reply_without_a_rating_waits_for_an_approver(database: TestDatabase) {
    let endpoint = FakeEndpoint::with([text_reply("It is five.")]).await;
    let agents = env_with(database, &endpoint, &endpoint).await;
    for rule in ["self_rated", "logprobs"] {
        agents.declare(definition(json!({ "use": "main" }), json!({ "confidence": rule }))).await;
        let of = agents.send(None, "please").await;
        assert_eq!(agents.env.status(&of).await, "waiting-approval", "{rule}");
    }
    let unknown = definition(json!({ "use": "main" }), json!({ "confidence": "certain" }));
    assert!(agents.env.engine.agents().put(&tenant(), unknown, None).await.is_err());
    let scripted = json!({ "provider": "scripted", "steps": [] });
    agents.declare(definition(scripted, json!({ "confidence": "logprobs" }))).await;
    let of = agents.send(None, "please").await;
    assert_eq!(agents.env.status(&of).await, "failed", "a scripted model has no probabilities");
}

async fn an_attachment_that_is_not_accepted_fails_its_run_and_not_the_thread(database: TestDatabase) {
    let endpoint = FakeEndpoint::with([text_reply("I see.")]).await;
    let agents = env_with(database, &endpoint, &endpoint).await;
    agents.declare(definition(json!({ "use": "main" }), json!({}))).await;
    let send = async |id: &str, content: Value| {
        let messages = vec![Message::new(id, Role::User, content)];
        let input = AgentInput { messages, ..input(Some("t1"), "") };
        let run = agents.env.engine.agents().start(input).await.unwrap();
        agents.env.drain().await;
        RunRef { tenant: tenant(), run: run.id.clone() }
    };
    let part = |kind: &str| json!({ "type": "image", "source": { "type": "data", "value": "iVBORw0KGgoA", "mimeType": kind } });
    let refused = send("u1", json!([{ "type": "text", "text": "See" }, part("image/tiff")])).await;
    assert_eq!(agents.env.status(&refused).await, "failed");
    let log = agents.env.log(&refused).await;
    let failure = log.iter().find(|event| event.contains("attachment_not_accepted")).unwrap();
    assert!(
        failure.contains("message u1: content[1]: the media type image/tiff is not accepted"),
        "{failure}"
    );
    assert!(endpoint.requests().is_empty());
    let accepted = send("u2", json!([part("image/png")])).await;
    assert_eq!(last_reply(&agents, &accepted).await, ("completed", "I see.".to_owned()));
    let messages = endpoint.body(0)["messages"].clone();
    assert!(messages[0]["content"].as_str().unwrap().contains("An attachment was left out"), "{messages}");
    assert_eq!(messages[1]["content"][0]["image_url"]["url"], "data:image/png;base64,iVBORw0KGgoA");
}
