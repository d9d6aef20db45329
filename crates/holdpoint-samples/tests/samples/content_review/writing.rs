//! The writer of the text: a declared agent in a child run, or the template.

use holdpoint_agents::EngineAgents;
use holdpoint_providers::EngineGraphs;

use super::*;

on_both! {
    an_agent_writes_and_revises,
    an_unknown_writer_fails_the_graph,
    the_topic_can_be_a_text_or_the_last_message,
}

async fn an_agent_writes_and_revises(env: TestEnv) {
    let steps = json!([{"text": "The tide comes in."}]);
    let model = json!({"provider": "scripted", "steps": steps});
    env.engine.agents().put(&tenant(), json!({"agentId": "poet", "model": model}), None).await.unwrap();
    let handle = start(&env.engine, json!({"topic": "Tides", "writer": "poet"})).await;
    assert_eq!(shown(&env.engine).await.draft, "The tide comes in.");
    resume(&env.engine, "1", revise("Mention the moon.")).await.unwrap();
    let second = shown(&env.engine).await;
    assert_eq!((second.draft.as_str(), second.revision), ("The tide comes in.", 1));
    let run = env.run(&handle.of).await;
    let messages: Vec<&str> =
        run.children.iter().map(|child| child.inputs["message"].as_str().unwrap()).collect();
    assert!(messages[0].contains("Tides"), "{messages:?}");
    assert!(messages[1].contains("Mention the moon."), "{messages:?}");
    assert!(messages[1].contains("The tide comes in."), "{messages:?}");
    resume(&env.engine, "2", approve()).await.unwrap();
    assert_eq!(completed(&env.engine).await["draft"], "The tide comes in.");
}

async fn an_unknown_writer_fails_the_graph(env: TestEnv) {
    start(&env.engine, json!({"topic": "Tides", "writer": "unknown"})).await;
    let GraphStatus::Failed(error) = status(&env.engine).await else { panic!("the graph has not failed") };
    assert_eq!(error.code, "writer_failed");
    assert!(error.message.contains("unknown"), "{}", error.message);
}

async fn the_topic_can_be_a_text_or_the_last_message(env: TestEnv) {
    let chat = json!({"messages": [
        {"role": "user", "content": "Waves"}, {"role": "assistant", "content": "?"},
        {"role": "user", "content": "Tides"},
    ]});
    for (key, input) in [("a", json!("Tides")), ("b", chat)] {
        let graph = "native:content-review".to_owned();
        let request = GraphStart {
            turn_id: None,
            owner: owner(),
            graph,
            state_key: Some(key.to_owned()),
            input,
            source: holdpoint_engine::core::RequestSource::INTERNAL,
        };
        let (handle, _) = env.engine.graphs().start(request).await.unwrap();
        let GraphStatus::Waiting { data, .. } = env.engine.graphs().status(&handle.of).await.unwrap() else {
            panic!("the graph does not wait")
        };
        assert!(data["draft"].as_str().unwrap().starts_with("Tides\n"), "{data}");
    }
}
