//! Interrupts of agents: tool approvals, questions and their answers.

use holdpoint_engine::core::{Answer, Owner, Principal, TenantId};
use holdpoint_providers::{EngineGraphs, GraphResume, GraphStart, GraphStatus};
use serde_json::{Value, json};

use crate::claude::claude_env::{ClaudeEnv, GRAPH, expect_error, expect_result, expect_waiting, tenant};

fn bash(command: &str) -> Value {
    json!(["Bash", {"command": command}])
}

fn one_call() -> Value {
    json!({"steps": [{"calls": [bash("publish")]}, {"text": "final: {results}"}]})
}

#[tokio::test]
async fn a_gated_call_is_made_once_and_only_after_its_approval() {
    let mut env = ClaudeEnv::with_script(one_call(), json!({})).await;
    let status = env.start().await;
    assert_eq!(
        expect_waiting(&status),
        ("tool_approval", &json!({"tool": "Bash", "input": {"command": "publish"}}))
    );
    assert_eq!(env.calls(), [] as [Value; 0]);
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish\"}");
    let GraphStatus::Completed(output) = status else { panic!("the graph has not completed") };
    assert_eq!(output["usage"], json!({"inputTokens": 10, "outputTokens": 5}));
    assert_eq!(output["costUsd"], json!(0.25));
    assert_eq!(env.calls(), [bash("publish")]);
}

/// Returns the number of uses of each approval.
async fn uses(env: &ClaudeEnv) -> Vec<usize> {
    let run = env.engine().runs().get(env.of.as_ref().unwrap()).await.unwrap();
    run.interrupts.iter().map(|asked| asked.uses.len()).collect()
}

#[tokio::test]
async fn each_approved_call_uses_its_own_approval_once() {
    let script = json!({"steps": [
        {"calls": [bash("one")]}, {"calls": [bash("two")]}, {"calls": [bash("three")]}, {"text": "final"},
    ]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    assert_eq!(uses(&env).await, [0]);
    env.answer(json!({"decision": "approve"})).await;
    env.answer(json!({"decision": "reject"})).await;
    assert_eq!(uses(&env).await, [1, 0, 0]);
    env.answer(json!({"decision": "edit", "input": {"command": "echo less"}})).await;
    assert_eq!(uses(&env).await, [1, 0, 1]);
    assert_eq!(env.calls(), [bash("one"), bash("echo less")]);
}

#[tokio::test]
async fn an_edited_call_is_made_as_it_was_edited() {
    let mut env = ClaudeEnv::with_script(one_call(), json!({})).await;
    env.start().await;
    let status = env.answer(json!({"decision": "edit", "input": {"command": "echo less"}})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"echo less\"}");
    assert_eq!(env.calls(), [bash("echo less")]);
}

#[tokio::test]
async fn after_a_rejection_the_next_call_needs_its_own_approval() {
    let script = json!({"steps": [
        {"calls": [bash("first")]}, {"calls": [bash("second")]}, {"text": "final: {results}"},
    ]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    let status = env.answer(json!({"decision": "reject", "reason": "shorter"})).await;
    assert_eq!(expect_waiting(&status).1["input"], json!({"command": "second"}));
    let status = env.answer(json!({"decision": "approve"})).await;
    let expected = "final: denied: a person rejected this call: shorter | made {\"command\": \"second\"}";
    assert_eq!(expect_result(&status), expected);
    assert_eq!(env.calls(), [bash("second")]);
}

#[tokio::test]
async fn a_question_opens_an_interrupt_and_its_answers_reach_the_agent() {
    let questions = json!([{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]);
    let ask = json!(["AskUserQuestion", {"questions": questions}]);
    let script = json!({"steps": [{"calls": [ask]}, {"text": "final: {results}"}]});
    // Questions open an interrupt even if all tools are ungated.
    let mut env = ClaudeEnv::with_script(script, json!({"ungated": ["*"]})).await;
    let status = env.start().await;
    assert_eq!(expect_waiting(&status), ("question", &json!({"questions": questions})));
    env.answer(json!({"answers": {"Which?": "blue"}})).await;
    assert_eq!(env.calls()[0][1], json!({"questions": questions, "answers": {"Which?": "blue"}}));
}

#[tokio::test]
async fn of_two_gated_calls_in_one_message_the_second_is_denied() {
    let script = json!({"steps": [
        {"calls": [bash("one"), bash("two")]}, {"calls": [bash("two")]}, {"text": "final: {results}"},
    ]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    let status = env.start().await;
    assert_eq!(expect_waiting(&status).1["input"], json!({"command": "one"}));
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_waiting(&status).1["input"], json!({"command": "two"}));
    let status = env.answer(json!({"decision": "approve"})).await;
    assert!(expect_result(&status).contains("one gated action at a time"), "{status:?}");
    assert_eq!(env.calls(), [bash("one"), bash("two")]);
}

#[tokio::test]
async fn ungated_mcp_tools_run_and_builtin_tools_follow_the_rules_of_the_agent() {
    let calls = json!([["mcp__files__read", {}], ["Read", {}]]);
    let script = json!({"steps": [{"calls": calls}, {"text": "final: {results}"}]});
    let mut env = ClaudeEnv::with_script(script, json!({"ungated": ["mcp__files__*", "Read"]})).await;
    let status = env.start().await;
    assert_eq!(expect_result(&status), "final: made {} | not permitted: this call was not approved");
}

#[tokio::test]
async fn the_program_gets_only_the_configured_environment() {
    let more = json!({"baseUrl": "http://127.0.0.1:9", "apiKey": {"file": "key.txt"}, "model": "small",
        "instructions": "Be brief.", "mcpServers": {"pub": {"command": "x", "env": {"TOKEN": "hidden"}}}});
    let mut env = ClaudeEnv::with_script(json!({"steps": [{"text": "hello"}]}), more).await;
    std::fs::write(env.folder.path().join("key.txt"), "sk-test\n").unwrap();
    env.start().await;
    let [start] = &env.lines("starts.jsonl")[..] else { panic!("the program was not started once") };
    let environment = start["environment"].as_object().unwrap();
    let mut names: Vec<&str> = environment.keys().map(String::as_str).collect();
    // Variables that shells and Python add.
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
    assert!(!flags.contains("hidden"), "other users of the machine can read arguments");
}

/// Returns true if a tenant can start the graph of a profile with these settings.
async fn is_open_to(tenant: &str, profile: Value) -> bool {
    let env = ClaudeEnv::with_script(json!({"steps": [{"text": "x"}]}), profile).await;
    let tenant = TenantId::parse(tenant).unwrap();
    let owner = Owner { tenant, principal: "tester".to_owned() };
    let start = GraphStart {
        turn_id: None,
        owner,
        graph: GRAPH.to_owned(),
        state_key: None,
        input: json!("x"),
        source: holdpoint_engine::core::RequestSource::INTERNAL,
    };
    match env.engine().graphs().start(start).await {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("is not in the operator's file of providers"), "{error}");
            false
        }
    }
}

#[tokio::test]
async fn a_profile_is_available_to_its_tenants_and_without_tenants_to_the_default_tenant() {
    assert!(is_open_to("default", json!({})).await);
    assert!(!is_open_to("acme", json!({})).await);
    assert!(!is_open_to("default", json!({"tenants": ["acme"]})).await);
    assert!(is_open_to("acme", json!({"tenants": ["acme"]})).await);
    assert!(is_open_to("acme", json!({"tenants": ["*"]})).await);
}

#[tokio::test]
async fn a_session_continues_on_a_machine_without_its_folder() {
    let mut env = ClaudeEnv::with_script(one_call(), json!({})).await;
    env.start().await;
    env.restart_in("elsewhere").await;
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls(), [bash("publish")]);
    assert_eq!(env.folders("elsewhere").len(), 1);
}

#[tokio::test]
async fn an_outdated_session_folder_is_updated() {
    let script = json!({"steps": [
        {"calls": [bash("one")]}, {"calls": [bash("two")]}, {"text": "final: {results}"},
    ]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    env.start().await;
    env.restart_in("elsewhere").await;
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_waiting(&status).1["input"], json!({"command": "two"}));
    env.restart_in("sessions").await;
    let status = env.answer(json!({"decision": "approve"})).await;
    assert_eq!(expect_result(&status), "final: made {\"command\": \"one\"} | made {\"command\": \"two\"}");
    assert_eq!(env.calls(), [bash("one"), bash("two")]);
}

#[tokio::test]
async fn paths_of_the_working_folder_are_replaced_by_a_placeholder_and_restored_in_edits() {
    // The script replaces `@cwd@` by the folder of the program.
    let script = json!({"steps": [{"calls": [["Write", {"file_path": "@cwd@/x.txt"}]]}, {"text": "final: {results}"}]});
    let mut env = ClaudeEnv::with_script(script, json!({})).await;
    let status = env.start().await;
    let (_, data) = expect_waiting(&status);
    assert_eq!(data["input"], json!({"file_path": "<workdir>/x.txt"}));
    let edited = json!({"decision": "edit", "input": {"file_path": "<workdir>/y.txt"}});
    let status = env.answer(edited).await;
    let made = env.calls()[0][1]["file_path"].as_str().unwrap().to_owned();
    assert!(made.ends_with("work/y.txt") && !made.contains('<'), "{made}");
    assert!(expect_result(&status).contains("<workdir>/y.txt"), "{status:?}");
}

#[tokio::test]
async fn an_input_without_a_prompt_is_rejected_before_the_program_starts() {
    let mut env = ClaudeEnv::with_script(json!({"steps": [{"text": "x"}]}), json!({})).await;
    let owner = holdpoint_engine::core::Owner {
        tenant: crate::claude::claude_env::tenant(),
        principal: "tester".to_owned(),
    };
    let start = holdpoint_providers::GraphStart {
        turn_id: None,
        owner,
        graph: crate::claude::claude_env::GRAPH.to_owned(),
        state_key: Some("key".to_owned()),
        input: json!({"topic": "cats"}),
        source: holdpoint_engine::core::RequestSource::INTERNAL,
    };
    env.of = Some(env.engine().graphs().start(start).await.unwrap().0.of);
    assert_eq!(expect_error(&env.wait_until_stopped().await).0, "provider_rejected");
    assert_eq!(env.lines("starts.jsonl"), [] as [Value; 0]);
}

/// Answers as a principal. Returns true if the answer was accepted.
async fn answer_as(env: &ClaudeEnv, name: &str, id: &str, value: Value) -> bool {
    let answer = Answer::new(value, Principal::named(name));
    let resume = GraphResume { id: id.to_owned(), answer, to: None };
    let answered = env.engine().graphs().resume(&tenant(), "key", resume).await;
    if let Err(error) = &answered {
        let refusals = ["not an approver", "may not", "is not offered"];
        assert!(refusals.iter().any(|text| error.to_string().contains(text)), "{error}");
    }
    answered.is_ok()
}

#[tokio::test]
async fn only_approvers_of_the_profile_can_approve_a_call() {
    let approval = json!({"approversList": ["alice", "bob", "tester"], "requiredApprovals": 2,
        "requesterMayNotApprove": true});
    let mut env = ClaudeEnv::with_script(one_call(), json!({"approval": approval})).await;
    expect_waiting(&env.start().await);
    let approve = || json!({"decision": "approve"});
    assert!(!answer_as(&env, "mallory", "m", approve()).await, "mallory is not an approver");
    assert!(!answer_as(&env, "tester", "t", approve()).await, "the requester may not approve");
    let edit = json!({"decision": "edit", "input": {"command": "rm"}});
    assert!(!answer_as(&env, "alice", "e", edit).await, "an approval with a quorum cannot be edited");
    assert!(answer_as(&env, "alice", "a", approve()).await);
    expect_waiting(&env.wait_until_stopped().await);
    assert_eq!(env.calls(), [] as [Value; 0], "one of two approvals is given");
    assert!(answer_as(&env, "bob", "b", approve()).await);
    assert_eq!(expect_result(&env.wait_until_stopped().await), "final: made {\"command\": \"publish\"}");
    assert_eq!(env.calls().len(), 1);
}
