//! What an agent pauses for, and what becomes of answers.

use holdpoint_engine::core::{Answer, Owner, Principal, TenantId};
use holdpoint_engine::{GraphStart, Resume, Standing};
use serde_json::{Value, json};

use crate::world::{GRAPH, World, asks, said, tenant, troubled};

fn bash(command: &str) -> Value {
    json!(["Bash", {"command": command}])
}

fn one_call() -> Value {
    json!({"steps": [{"calls": [bash("publish")]}, {"text": "final: {results}"}]})
}

#[tokio::test]
async fn a_call_is_made_once_and_only_after_somebody_allowed_it() {
    let mut world = World::playing(one_call(), json!({})).await;
    let standing = world.start().await;
    assert_eq!(asks(&standing), ("tool_approval", &json!({"tool": "Bash", "input": {"command": "publish"}})));
    assert_eq!(world.calls(), [] as [Value; 0]);
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish\"}");
    let Standing::Completed(output) = standing else { panic!("it has ended") };
    assert_eq!(output["usage"], json!({"inputTokens": 10, "outputTokens": 5}));
    assert_eq!(output["costUsd"], json!(0.25));
    assert_eq!(world.calls(), [bash("publish")]);
}

/// Returns the number of uses of each approval.
async fn uses(world: &World) -> Vec<usize> {
    let run = world.engine().run(world.of.as_ref().unwrap()).await.unwrap();
    run.interrupts.iter().map(|asked| asked.uses.len()).collect()
}

#[tokio::test]
async fn each_approved_call_uses_its_own_approval_once() {
    let script = json!({"steps": [
        {"calls": [bash("one")]}, {"calls": [bash("two")]}, {"calls": [bash("three")]}, {"text": "final"},
    ]});
    let mut world = World::playing(script, json!({})).await;
    world.start().await;
    assert_eq!(uses(&world).await, [0]);
    world.answer(json!({"decision": "approve"})).await;
    world.answer(json!({"decision": "reject"})).await;
    assert_eq!(uses(&world).await, [1, 0, 0]);
    world.answer(json!({"decision": "edit", "input": {"command": "echo less"}})).await;
    assert_eq!(uses(&world).await, [1, 0, 1]);
    assert_eq!(world.calls(), [bash("one"), bash("echo less")]);
}

#[tokio::test]
async fn an_edited_call_is_made_as_it_was_edited() {
    let mut world = World::playing(one_call(), json!({})).await;
    world.start().await;
    let standing = world.answer(json!({"decision": "edit", "input": {"command": "echo less"}})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"echo less\"}");
    assert_eq!(world.calls(), [bash("echo less")]);
}

#[tokio::test]
async fn a_rejected_call_is_asked_for_again_until_somebody_is_content() {
    let script = json!({"steps": [
        {"calls": [bash("first")]}, {"calls": [bash("second")]}, {"text": "final: {results}"},
    ]});
    let mut world = World::playing(script, json!({})).await;
    world.start().await;
    let standing = world.answer(json!({"decision": "reject", "reason": "shorter"})).await;
    assert_eq!(asks(&standing).1["input"], json!({"command": "second"}));
    let standing = world.answer(json!({"decision": "approve"})).await;
    let expected = "final: denied: a person rejected this call: shorter | made {\"command\": \"second\"}";
    assert_eq!(said(&standing), expected);
    assert_eq!(world.calls(), [bash("second")]);
}

#[tokio::test]
async fn a_question_is_asked_and_its_answers_reach_the_agent() {
    let questions = json!([{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]);
    let ask = json!(["AskUserQuestion", {"questions": questions}]);
    let script = json!({"steps": [{"calls": [ask]}, {"text": "final: {results}"}]});
    // Even where the operator says that nobody is to be asked.
    let mut world = World::playing(script, json!({"ungated": ["*"]})).await;
    let standing = world.start().await;
    assert_eq!(asks(&standing), ("question", &json!({"questions": questions})));
    world.answer(json!({"answers": {"Which?": "blue"}})).await;
    assert_eq!(world.calls()[0][1], json!({"questions": questions, "answers": {"Which?": "blue"}}));
}

#[tokio::test]
async fn of_two_gated_calls_in_one_message_the_second_has_to_wait() {
    let script = json!({"steps": [
        {"calls": [bash("one"), bash("two")]}, {"calls": [bash("two")]}, {"text": "final: {results}"},
    ]});
    let mut world = World::playing(script, json!({})).await;
    let standing = world.start().await;
    assert_eq!(asks(&standing).1["input"], json!({"command": "one"}));
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(asks(&standing).1["input"], json!({"command": "two"}));
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert!(said(&standing).contains("one gated action at a time"), "{standing:?}");
    assert_eq!(world.calls(), [bash("one"), bash("two")]);
}

#[tokio::test]
async fn ungated_tools_of_servers_run_and_the_agents_own_are_left_to_its_own_rules() {
    let calls = json!([["mcp__files__read", {}], ["Read", {}]]);
    let script = json!({"steps": [{"calls": calls}, {"text": "final: {results}"}]});
    let mut world = World::playing(script, json!({"ungated": ["mcp__files__*", "Read"]})).await;
    let standing = world.start().await;
    assert_eq!(said(&standing), "final: made {} | not permitted: nobody allowed this call");
}

#[tokio::test]
async fn the_program_sees_an_environment_of_our_choosing() {
    let more = json!({"baseUrl": "http://127.0.0.1:9", "apiKey": {"file": "key.txt"}, "model": "small",
        "instructions": "Be brief.", "mcpServers": {"pub": {"command": "x", "env": {"TOKEN": "hidden"}}}});
    let mut world = World::playing(json!({"steps": [{"text": "hello"}]}), more).await;
    std::fs::write(world.place.path().join("key.txt"), "sk-test\n").unwrap();
    world.start().await;
    let [start] = &world.lines("starts.jsonl")[..] else { panic!("it was started once") };
    let environment = start["environment"].as_object().unwrap();
    let mut names: Vec<&str> = environment.keys().map(String::as_str).collect();
    // What shells and Python add by themselves.
    names.retain(|name| {
        !["LC_CTYPE", "PWD", "SHLVL", "_", "OLDPWD"].contains(name) && !name.contains("PYENV")
    });
    names.sort_unstable();
    let expected = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CONFIG_DIR",
        "HOME",
        "PATH",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    assert_eq!(environment["ANTHROPIC_API_KEY"], "sk-test");
    let flags = start["flags"].to_string();
    for flag in ["--await-initialize", "--strict-mcp-config", "--setting-sources=", "--model=small"] {
        assert!(flags.contains(flag), "{flag} is not in {flags}");
    }
    assert!(!flags.contains("hidden"), "everybody on a machine can read arguments");
}

/// Returns whether a tenant can start the graph of a profile with these settings.
async fn is_open_to(tenant: &str, profile: Value) -> bool {
    let world = World::playing(json!({"steps": [{"text": "x"}]}), profile).await;
    let tenant = TenantId::parse(tenant).unwrap();
    let owner = Owner { tenant, principal: "tester".to_owned() };
    let start = GraphStart { owner, graph: GRAPH.to_owned(), state_key: None, input: json!("x") };
    match world.engine().start_graph(start).await {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("has no such one"), "{error}");
            false
        }
    }
}

#[tokio::test]
async fn a_profile_is_a_graph_for_the_tenants_that_it_names_and_for_default_without_any() {
    assert!(is_open_to("default", json!({})).await);
    assert!(!is_open_to("acme", json!({})).await);
    assert!(!is_open_to("default", json!({"tenants": ["acme"]})).await);
    assert!(is_open_to("acme", json!({"tenants": ["acme"]})).await);
    assert!(is_open_to("acme", json!({"tenants": ["*"]})).await);
}

#[tokio::test]
async fn a_conversation_goes_on_where_there_is_no_folder_of_it() {
    let mut world = World::playing(one_call(), json!({})).await;
    world.start().await;
    world.move_to("elsewhere").await;
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls(), [bash("publish")]);
    assert_eq!(world.folders("elsewhere").len(), 1);
}

#[tokio::test]
async fn a_folder_that_was_left_behind_is_brought_up_to_date() {
    let script = json!({"steps": [
        {"calls": [bash("one")]}, {"calls": [bash("two")]}, {"text": "final: {results}"},
    ]});
    let mut world = World::playing(script, json!({})).await;
    world.start().await;
    world.move_to("elsewhere").await;
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(asks(&standing).1["input"], json!({"command": "two"}));
    world.move_to("sessions").await;
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"one\"} | made {\"command\": \"two\"}");
    assert_eq!(world.calls(), [bash("one"), bash("two")]);
}

#[tokio::test]
async fn paths_of_the_working_folder_are_not_shown_and_come_back_when_edited() {
    // The program's folder is known once it has started: it asks with it.
    let script = json!({"steps": [{"calls": [["Write", {"file_path": "@cwd@/x.txt"}]]}, {"text": "final: {results}"}]});
    let mut world = World::playing(script, json!({})).await;
    let standing = world.start().await;
    let (_, data) = asks(&standing);
    assert_eq!(data["input"], json!({"file_path": "<workdir>/x.txt"}));
    let edited = json!({"decision": "edit", "input": {"file_path": "<workdir>/y.txt"}});
    let standing = world.answer(edited).await;
    let made = world.calls()[0][1]["file_path"].as_str().unwrap().to_owned();
    assert!(made.ends_with("work/y.txt") && !made.contains('<'), "{made}");
    assert!(said(&standing).contains("<workdir>/y.txt"), "{standing:?}");
}

#[tokio::test]
async fn an_input_that_is_no_text_is_refused_before_anything_runs() {
    let mut world = World::playing(json!({"steps": [{"text": "x"}]}), json!({})).await;
    let owner =
        holdpoint_engine::core::Owner { tenant: crate::world::tenant(), principal: "tester".to_owned() };
    let start = holdpoint_engine::GraphStart {
        owner,
        graph: crate::world::GRAPH.to_owned(),
        state_key: Some("key".to_owned()),
        input: json!({"topic": "cats"}),
    };
    world.of = Some(world.engine().start_graph(start).await.unwrap().0.of);
    assert_eq!(troubled(&world.settled().await).0, "provider_rejected");
    assert_eq!(world.lines("starts.jsonl"), [] as [Value; 0]);
}

/// Answers as a person and returns whether the answer was taken.
async fn answer_as(world: &World, name: &str, id: &str, value: Value) -> bool {
    let answer = Answer::new(value, Principal::named(name));
    let resume = Resume { id: id.to_owned(), answer, to: None };
    let answered = world.engine().resume_graph(&tenant(), "key", resume).await;
    if let Err(error) = &answered {
        let refusals = ["not an approver", "may not", "is not offered"];
        assert!(refusals.iter().any(|text| error.to_string().contains(text)), "{error}");
    }
    answered.is_ok()
}

#[tokio::test]
async fn only_approvers_of_the_profile_may_allow_a_call_of_a_graph_that_was_started_over_chat() {
    let approval = json!({"approversList": ["alice", "bob", "tester"], "requiredApprovals": 2,
        "requesterMayNotApprove": true});
    let mut world = World::playing(one_call(), json!({"approval": approval})).await;
    asks(&world.start().await);
    let yes = || json!({"decision": "approve"});
    assert!(!answer_as(&world, "mallory", "m", yes()).await, "no approver");
    assert!(!answer_as(&world, "tester", "t", yes()).await, "the requester");
    let edit = json!({"decision": "edit", "input": {"command": "rm"}});
    assert!(!answer_as(&world, "alice", "e", edit).await, "several approve what was shown");
    assert!(answer_as(&world, "alice", "a", yes()).await);
    asks(&world.settled().await);
    assert_eq!(world.calls(), [] as [Value; 0], "one of two has approved");
    assert!(answer_as(&world, "bob", "b", yes()).await);
    assert_eq!(said(&world.settled().await), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls().len(), 1);
}
