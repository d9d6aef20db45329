//! Who writes: a declared agent in a run of its own, or nobody.

use super::*;

on_both! {
    an_agent_writes_and_revises,
    an_agent_that_cannot_write_fails_the_graph,
    a_topic_may_be_all_that_was_said,
}

async fn an_agent_writes_and_revises(house: House) {
    let steps = json!([{"text": "The tide comes in."}]);
    let model = json!({"provider": "scripted", "steps": steps});
    house.engine.put_agent(&tenant(), json!({"agentId": "poet", "model": model}), None).await.unwrap();
    let handle = start(&house.engine, json!({"topic": "Tides", "writer": "poet"})).await;
    assert_eq!(shown(&house.engine).await.draft, "The tide comes in.");
    resume(&house.engine, "1", revise("Mention the moon.")).await.unwrap();
    let second = shown(&house.engine).await;
    assert_eq!((second.draft.as_str(), second.revision), ("The tide comes in.", 1));
    let run = house.run(&handle.of).await;
    let told: Vec<&str> =
        run.children.iter().map(|child| child.inputs["message"].as_str().unwrap()).collect();
    assert!(told[0].contains("Tides"), "{told:?}");
    assert!(told[1].contains("Mention the moon.") && told[1].contains("The tide comes in."), "{told:?}");
    resume(&house.engine, "2", approve()).await.unwrap();
    assert_eq!(completed(&house.engine).await["draft"], "The tide comes in.");
}

async fn an_agent_that_cannot_write_fails_the_graph(house: House) {
    start(&house.engine, json!({"topic": "Tides", "writer": "nobody"})).await;
    let Standing::Failed(error) = standing(&house.engine).await else { panic!("somebody wrote it") };
    assert_eq!(error.code, "writer_failed");
    assert!(error.message.contains("nobody"), "{}", error.message);
}

async fn a_topic_may_be_all_that_was_said(house: House) {
    let chat = json!({"messages": [
        {"role": "user", "content": "Waves"}, {"role": "assistant", "content": "?"},
        {"role": "user", "content": "Tides"},
    ]});
    for (key, input) in [("a", json!("Tides")), ("b", chat)] {
        let graph = "native:content-review".to_owned();
        let begun = GraphStart { owner: owner(), graph, state_key: Some(key.to_owned()), input };
        let (handle, _) = house.engine.start_graph(begun).await.unwrap();
        let Standing::Waiting { data, .. } = house.engine.graph_standing(&handle.of).await.unwrap() else {
            panic!("nobody is asked")
        };
        assert!(data["draft"].as_str().unwrap().starts_with("Tides\n"), "{data}");
    }
}
