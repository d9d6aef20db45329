//! Reasoning, arguments of calls and progress that are recorded before they are complete.

use holdpoint_engine::core::{Event, RunRef};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call};
use crate::test_database::on_both;

on_both! {
    reasoning_and_arguments_are_recorded_while_the_model_writes_them,
    hidden_reasoning_is_stored_with_the_reply_only,
    the_progress_of_a_call_is_recorded_while_it_is_at_work,
}

async fn events(agents: &AgentEnv, of: &RunRef) -> Vec<Event> {
    agents.env.engine.events().list(of, 0).await.unwrap().into_iter().map(|one| one.event).collect()
}

/// An agent that reasons and calls a tool; all of it arrives in pieces.
fn thinker() -> Value {
    let calls = [call("c1", "look", json!({"where": "in the attic", "for": "the hat"}))];
    let steps = json!([
        {"reasoning": ["I could look. ", "I look."], "text": "One moment.", "calls": calls,
            "delayMs": 60, "argumentDelayMs": 60},
        {"text": "Found."},
    ]);
    let mut agent = agent(&steps);
    agent["tools"] = json!([{"type": "scripted", "name": "look", "delayMs": 120, "progress": 4}]);
    agent["permissions"] = json!({"default": "allow"});
    agent
}

async fn reasoning_and_arguments_are_recorded_while_the_model_writes_them(agents: AgentEnv) {
    let mut definition = thinker();
    definition["reasoning"] = json!("shown");
    agents.declare(definition).await;
    let of = agents.send(None, "please").await;
    let recorded = events(&agents, &of).await;
    let (mut thoughts, mut arguments, mut names, mut indexes) =
        (String::new(), String::new(), vec![], vec![]);
    for event in &recorded {
        let meta = match event {
            Event::ReasoningChunk { chunk, meta, .. } => {
                thoughts.push_str(chunk);
                meta
            }
            Event::ToolCallChunk { call, name, chunk, meta, .. } => {
                assert_eq!(call, "c1");
                arguments.push_str(chunk);
                names.extend(name.clone());
                meta
            }
            Event::MessageChunk { meta, .. } if meta["messageId"] == "reply-1" => meta,
            _ => continue,
        };
        indexes.push(meta["index"].as_u64().unwrap());
    }
    assert_eq!(thoughts, "I could look. I look.");
    assert!(!arguments.is_empty() && names == ["look"], "{recorded:?}");
    let whole = r#"{"where":"in the attic","for":"the hat"}"#;
    assert!(whole.starts_with(&arguments), "the rest is in the reply: {arguments}");
    assert_eq!(indexes, (0..indexes.len() as u64).collect::<Vec<_>>(), "all kinds are counted together");
    let reply = recorded.iter().position(|event| matches!(event, Event::ModelReplied { .. })).unwrap();
    let last = recorded.iter().rposition(|event| matches!(event, Event::ToolCallChunk { .. })).unwrap();
    assert!(last < reply);
    let Event::ModelReplied { message, .. } = &recorded[reply] else { panic!() };
    assert_eq!(message.reasoning.len(), 2);
    assert!(message.reasoning.iter().all(|part| part.shown));
}

async fn hidden_reasoning_is_stored_with_the_reply_only(agents: AgentEnv) {
    agents.declare(thinker()).await;
    let of = agents.send(None, "please").await;
    let recorded = events(&agents, &of).await;
    assert!(!recorded.iter().any(|event| matches!(event, Event::ReasoningChunk { .. })));
    let reply = recorded.iter().find_map(|event| match event {
        Event::ModelReplied { message, .. } => Some(message),
        _ => None,
    });
    assert!(reply.unwrap().reasoning.iter().all(|part| !part.shown && !part.text.is_empty()));
}

async fn the_progress_of_a_call_is_recorded_while_it_is_at_work(agents: AgentEnv) {
    agents.declare(thinker()).await;
    let of = agents.send(None, "please").await;
    let recorded = events(&agents, &of).await;
    let reports: Vec<(usize, &Value)> = recorded
        .iter()
        .enumerate()
        .filter_map(|(at, event)| match event {
            Event::ActivityReported { activity, kind, content, call, .. } => {
                assert_eq!((activity.as_str(), kind.as_str()), ("c1:progress", "PROGRESS"));
                assert_eq!((call.as_deref(), &content["total"]), (Some("c1"), &json!(4)));
                Some((at, &content["progress"]))
            }
            _ => None,
        })
        .collect();
    assert_eq!(reports.first().map(|(_, progress)| *progress), Some(&json!(1)), "{recorded:?}");
    assert!(reports.len() < 4, "reports are merged: {reports:?}");
    let end = recorded.iter().position(|event| matches!(event, Event::ToolReturned { .. })).unwrap();
    assert!(reports.iter().all(|(at, _)| *at < end));
}
