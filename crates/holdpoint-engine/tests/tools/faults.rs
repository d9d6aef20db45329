//! Servers that misbehave: what a call then comes to, and that the next one finds a server again.

use holdpoint_engine::agent::tool::Returned;
use serde_json::{Value, json};

use crate::world::{Tether, made, not_called, parse, program, result, tenant, unknown, with};

#[tokio::test]
async fn a_server_that_cannot_be_started_was_not_called() {
    for command in [json!(["/no/such/program"]), json!(["python3", "server.py", "--exit"]), json!(["true"])] {
        let definition = with(program(json!({})), json!({"command": command}));
        let tools = parse(json!([definition])).unwrap();
        let why = not_called(made(&tools, "echo", json!({})).await);
        assert!(why.contains("the MCP server own cannot be reached"), "{why}");
        not_called(made(&tools, "echo", json!({})).await);
        // Failing again and again, it is not even tried.
        let why = not_called(made(&tools, "echo", json!({})).await);
        assert!(why.contains("not tried again at once"), "{why}");
        assert!(tools.list(&tenant()).await.is_err());
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_at_all_was_not_called() {
    let definition = with(program(json!({"timeoutMs": 200})), json!({"command": ["sleep", "1000"]}));
    let tools = parse(json!([definition])).unwrap();
    let why = not_called(made(&tools, "echo", json!({})).await);
    assert!(why.contains("did not answer in time"), "{why}");
}

#[tokio::test]
async fn of_a_call_in_which_the_server_dies_nothing_is_known_and_the_next_one_finds_another_server() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let why = unknown(made(&tools, "die", json!({})).await);
    assert!(why.contains("ended before it answered"), "{why}");
    assert_eq!(result(&tools, "echo", json!({"text": "again"})).await, json!("again"));
    // What answers in between is forgiven what it did before.
    unknown(made(&tools, "die", json!({})).await);
    assert_eq!(result(&tools, "echo", json!({"text": "again"})).await, json!("again"));
    unknown(made(&tools, "die", json!({})).await);
    unknown(made(&tools, "die", json!({})).await);
    assert!(not_called(made(&tools, "echo", json!({})).await).contains("not tried again at once"));
}

#[tokio::test]
async fn a_call_under_way_shares_the_fate_of_its_server() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env()}))])).unwrap();
    let both = async {
        let mut line = tether.started().await;
        assert_eq!(line.said().await.as_deref(), Some("hanging"));
        unknown(made(&tools, "die", json!({})).await);
    };
    let (hanging, ()) = tokio::join!(made(&tools, "hang", json!({})), both);
    unknown(hanging);
    // Lost once, not twice: it is started again at once.
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up_and_the_server_is_told() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env(), "timeoutMs": 5000}))])).unwrap();
    result(&tools, "echo", json!({})).await;
    let mut line = tether.started().await;
    let why = unknown(made(&tools, "hang", json!({})).await);
    assert!(why.contains("no answer within 5000 ms"), "{why}");
    assert_eq!(line.said().await.as_deref(), Some("hanging"));
    assert_eq!(line.said().await.as_deref(), Some("cancelled"));
    // It lives and goes on.
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_given_up_and_the_server_is_told() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env()}))])).unwrap();
    result(&tools, "echo", json!({})).await;
    let mut line = tether.started().await;
    tokio::select! {
        made = made(&tools, "hang", json!({})) => panic!("{made:?}"),
        said = line.said() => assert_eq!(said.as_deref(), Some("hanging")),
    }
    assert_eq!(line.said().await.as_deref(), Some("cancelled"));
}

#[tokio::test]
async fn a_server_that_does_not_even_listen_any_more_is_replaced() {
    let tether = Tether::new().await;
    let definition = program(json!({"env": with(tether.env(), json!({"DEAF": "1"})), "timeoutMs": 5000}));
    let tools = parse(json!([definition])).unwrap();
    result(&tools, "echo", json!({})).await;
    let line = tether.started().await;
    unknown(made(&tools, "deaf", json!({})).await);
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
    line.gone().await;
}

#[tokio::test]
async fn a_large_answer_is_cut_and_says_so_and_one_too_large_ends_the_server() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let said = result(&tools, "huge", json!({"text": "1000000"})).await;
    assert_eq!(said["truncated"], true);
    assert_eq!(said["text"].as_str().unwrap().len(), 256 * 1024);
    assert!(said["note"].as_str().unwrap().contains("1000000"), "{}", said["note"]);
    let why = unknown(made(&tools, "huge", json!({"text": "5000000"})).await);
    assert!(why.contains("more than is taken"), "{why}");
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn garbage_between_messages_is_passed_over() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    assert_eq!(result(&tools, "garbage", json!({})).await, json!("after the garbage"));
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn what_a_tool_says_of_its_failure_is_for_the_agent() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let failed = made(&tools, "fail", json!({})).await;
    assert_eq!(failed, Ok(Returned::Failed(json!("it did not work"))));
    let refused = made(&tools, "no", json!({})).await;
    assert_eq!(refused, Ok(Returned::Failed(json!({"error": "not like this", "code": -32602}))));
}

#[tokio::test]
async fn a_server_that_has_left_between_two_calls_is_started_again() {
    let tether = Tether::new().await;
    let tools = parse(json!([program(json!({"env": tether.env()}))])).unwrap();
    for _ in 0..3 {
        let (line, left) = tokio::join!(tether.started(), result(&tools, "leave", json!({})));
        assert_eq!(left, json!("leave"));
        line.gone().await;
    }
}

#[tokio::test]
async fn a_server_that_asks_back_is_told_no() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let said = result(&tools, "ask", json!({})).await;
    let said: Value = serde_json::from_str(said.as_str().unwrap()).unwrap();
    assert!(said["elicitation/create"].as_str().unwrap().contains("nobody answers questions"), "{said}");
    assert!(said["sampling/createMessage"].as_str().unwrap().contains("no model answers"), "{said}");
    assert!(said["roots/list"].as_str().unwrap().contains("no roots"), "{said}");
}
