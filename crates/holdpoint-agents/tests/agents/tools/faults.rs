//! MCP servers that misbehave: the outcome of the call, and the restart of the server for the next call.

use holdpoint_agents::tool::CallOutcome;
use serde_json::{Value, json};

use crate::tools::tool_env::{
    ControlPort, call_tool, not_called, parse, program, result, tenant, unknown, with,
};

#[tokio::test]
async fn a_call_of_a_server_that_cannot_start_is_reported_as_not_made() {
    for command in [json!(["/no/such/program"]), json!(["python3", "server.py", "--exit"]), json!(["true"])] {
        let definition = with(program(json!({})), json!({"command": command}));
        let tools = parse(json!([definition])).unwrap();
        let why = not_called(call_tool(&tools, "echo", json!({})).await);
        assert!(why.contains("the MCP server own cannot be reached"), "{why}");
        not_called(call_tool(&tools, "echo", json!({})).await);
        // After repeated failures the server is not started.
        let why = not_called(call_tool(&tools, "echo", json!({})).await);
        assert!(why.contains("waiting before the next attempt"), "{why}");
        assert!(tools.list(&tenant()).await.is_err());
    }
}

#[tokio::test]
async fn a_call_of_a_server_that_does_not_initialize_is_reported_as_not_made() {
    let definition = with(program(json!({"timeoutMs": 200})), json!({"command": ["sleep", "1000"]}));
    let tools = parse(json!([definition])).unwrap();
    let why = not_called(call_tool(&tools, "echo", json!({})).await);
    assert!(why.contains("did not answer in time"), "{why}");
}

#[tokio::test]
async fn a_call_during_which_the_server_exits_has_an_unknown_outcome_and_the_next_call_restarts_the_server() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let why = unknown(call_tool(&tools, "die", json!({})).await);
    assert!(why.contains("ended before it answered"), "{why}");
    assert_eq!(result(&tools, "echo", json!({"text": "again"})).await, json!("again"));
    // A successful call resets the count of failures.
    unknown(call_tool(&tools, "die", json!({})).await);
    assert_eq!(result(&tools, "echo", json!({"text": "again"})).await, json!("again"));
    unknown(call_tool(&tools, "die", json!({})).await);
    unknown(call_tool(&tools, "die", json!({})).await);
    assert!(
        not_called(call_tool(&tools, "echo", json!({})).await).contains("waiting before the next attempt")
    );
}

#[tokio::test]
async fn an_exit_of_the_server_fails_all_calls_in_flight() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env()}))])).unwrap();
    let both = async {
        let mut connection = control.started().await;
        assert_eq!(connection.next_message().await.as_deref(), Some("hanging"));
        unknown(call_tool(&tools, "die", json!({})).await);
    };
    let (hanging, ()) = tokio::join!(call_tool(&tools, "hang", json!({})), both);
    unknown(hanging);
    // The crash counts as one failure, so the server is restarted without a delay.
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn a_call_that_times_out_is_cancelled_at_the_server() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env(), "timeoutMs": 5000}))])).unwrap();
    result(&tools, "echo", json!({})).await;
    let mut connection = control.started().await;
    let why = unknown(call_tool(&tools, "hang", json!({})).await);
    assert!(why.contains("no answer within 5000 ms"), "{why}");
    assert_eq!(connection.next_message().await.as_deref(), Some("hanging"));
    assert_eq!(connection.next_message().await.as_deref(), Some("cancelled"));
    // The server is still running.
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env()}))])).unwrap();
    result(&tools, "echo", json!({})).await;
    let mut connection = control.started().await;
    tokio::select! {
        outcome = call_tool(&tools, "hang", json!({})) => panic!("{outcome:?}"),
        message = connection.next_message() => assert_eq!(message.as_deref(), Some("hanging")),
    }
    assert_eq!(connection.next_message().await.as_deref(), Some("cancelled"));
}

#[tokio::test]
async fn a_server_that_stops_reading_is_replaced() {
    let control = ControlPort::new().await;
    let definition =
        program(json!({"env": with(control.env(), json!({"STOP_READING": "1"})), "timeoutMs": 5000}));
    let tools = parse(json!([definition])).unwrap();
    result(&tools, "echo", json!({})).await;
    let connection = control.started().await;
    unknown(call_tool(&tools, "stop_reading", json!({})).await);
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
    connection.wait_for_exit().await;
}

#[tokio::test]
async fn a_large_result_is_truncated_and_one_over_the_size_limit_ends_the_server() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let large = result(&tools, "huge", json!({"text": "1000000"})).await;
    assert_eq!(large["truncated"], true);
    assert_eq!(large["text"].as_str().unwrap().len(), 256 * 1024);
    assert!(large["note"].as_str().unwrap().contains("1000000"), "{}", large["note"]);
    let why = unknown(call_tool(&tools, "huge", json!({"text": "5000000"})).await);
    assert!(why.contains("above the size limit"), "{why}");
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn garbage_between_messages_is_ignored() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    assert_eq!(result(&tools, "garbage", json!({})).await, json!("after the garbage"));
    assert_eq!(result(&tools, "echo", json!({"text": "x"})).await, json!("x"));
}

#[tokio::test]
async fn the_error_of_a_tool_is_returned_to_the_agent() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let failed = call_tool(&tools, "fail", json!({})).await;
    assert_eq!(failed, Ok(CallOutcome::Failed(json!("it did not work"))));
    let refused = call_tool(&tools, "no", json!({})).await;
    assert_eq!(refused, Ok(CallOutcome::Failed(json!({"error": "not like this", "code": -32602}))));
}

#[tokio::test]
async fn a_server_that_exits_between_calls_is_restarted() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env()}))])).unwrap();
    for _ in 0..3 {
        let (connection, left) = tokio::join!(control.started(), result(&tools, "leave", json!({})));
        assert_eq!(left, json!("leave"));
        connection.wait_for_exit().await;
    }
}

#[tokio::test]
async fn requests_of_a_server_to_the_client_are_rejected() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let response = result(&tools, "ask", json!({})).await;
    let response: Value = serde_json::from_str(response.as_str().unwrap()).unwrap();
    assert!(
        response["elicitation/create"].as_str().unwrap().contains("elicitation is not supported"),
        "{response}"
    );
    assert!(
        response["sampling/createMessage"].as_str().unwrap().contains("sampling is not supported"),
        "{response}"
    );
    assert!(response["roots/list"].as_str().unwrap().contains("roots are not supported"), "{response}");
}
