//! MCP servers over stdio: environment, list of tools, and lifetime.

use holdpoint_agents::tool::CallOutcome;
use serde_json::{Value, json};

use crate::tools::tool_env::{ControlPort, call_tool, not_called, parse, program, result, specs};

#[tokio::test]
async fn the_tools_of_a_server_can_be_listed_and_called() {
    let tools = parse(json!([program(json!({}))])).unwrap();
    let specs = specs(&tools).await;
    assert_eq!(specs["echo"].description, "does echo");
    assert_eq!(specs["echo"].parameters["properties"]["text"]["type"], "string");
    // A tool name that models do not accept is changed, and a call with the new name reaches the tool.
    assert!(specs.contains_key("read_me"), "{:?}", specs.keys());
    assert_eq!(result(&tools, "read_me", json!({})).await, json!("read.me"));
    assert_eq!(result(&tools, "echo", json!({"text": "hü"})).await, json!("hü"));
    assert_eq!(result(&tools, "sum", json!({})).await, json!({"sum": 3, "key": "key-1"}));
    let source = json!({"type": "data", "value": "iVBORw0KGgoA", "mimeType": "image/png"});
    let picture = json!([{"type": "image", "source": source}]);
    assert_eq!(result(&tools, "picture", Value::Null).await, picture);
    assert!(not_called(call_tool(&tools, "echo", json!([1])).await).contains("object"));
    assert!(not_called(call_tool(&tools, "missing", json!({})).await).contains("no tool missing"));
}

#[tokio::test]
async fn the_definition_and_not_the_server_decides_about_tools_by_default() {
    let filtered =
        json!({"tools": ["e*", "where", "sum"], "idempotent": ["su?"], "primary": {"echo": "text"}});
    let tools = parse(json!([program(filtered.clone())])).unwrap();
    let found = specs(&tools).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["echo", "sum", "where"]);
    let idempotent = |name: &str| found[name].idempotent;
    assert_eq!((idempotent("echo"), idempotent("sum"), idempotent("where")), (false, true, false));
    assert_eq!(found["echo"].primary.as_deref(), Some("text"));
    assert!(not_called(call_tool(&tools, "fail", json!({})).await).contains("no tool fail"));

    let mut trusting = program(filtered);
    trusting["trustAnnotations"] = json!(true);
    let found = specs(&parse(json!([trusting])).unwrap()).await;
    assert!(found.values().all(|spec| spec.idempotent));
}

#[tokio::test]
async fn a_program_gets_a_limited_environment_and_its_own_process_group() {
    let tools = parse(json!([program(json!({"env": {"GIVEN": "this", "FROM": {"env": "PATH"}}}))])).unwrap();
    let process = result(&tools, "where", json!({})).await;
    let process: Value = serde_json::from_str(process.as_str().unwrap()).unwrap();
    let env = process["env"].as_object().unwrap();
    assert_eq!((&env["GIVEN"], &env["FROM"]), (&json!("this"), &json!(std::env::var("PATH").unwrap())));
    // Variables of Cargo are not passed to the server.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!env.keys().any(|name| name.starts_with("CARGO") || name.starts_with("NEXTEST")), "{env:?}");
    assert_eq!(process["folder"], json!(crate::tools::tool_env::folder()));
    assert_eq!(process["group"], true);
}

#[tokio::test]
async fn a_server_is_started_on_first_use_and_shared() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env()}))])).unwrap();
    // The first call returns only after the second has reached the same process.
    let (first, second) =
        tokio::join!(call_tool(&tools, "first", json!({})), call_tool(&tools, "second", json!({})));
    assert_eq!(
        (first, second),
        (Ok(CallOutcome::Result(json!("first"))), Ok(CallOutcome::Result(json!("second"))))
    );
    control.started().await;
}

#[tokio::test]
async fn a_server_and_its_child_processes_end_with_its_tools() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env()}))])).unwrap();
    let (connection, outcome) = tokio::join!(control.started(), result(&tools, "grandchild", json!({})));
    assert_eq!(outcome, json!("there is a grandchild"));
    drop(tools);
    // The grandchild has the control connection, too.
    connection.wait_for_exit().await;
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_restarted_on_demand() {
    let control = ControlPort::new().await;
    let tools = parse(json!([program(json!({"env": control.env(), "idleMs": 1}))])).unwrap();
    for text in ["once", "twice", "three times", "four times"] {
        let (connection, response) =
            tokio::join!(control.started(), result(&tools, "echo", json!({"text": text})));
        assert_eq!(response, json!(text));
        connection.wait_for_exit().await;
    }
}

#[tokio::test]
async fn the_number_and_size_of_tools_of_a_server_are_limited() {
    let tools = parse(json!([program(json!({"env": {"MORE": "200", "LARGE": "1"}}))])).unwrap();
    let found = specs(&tools).await;
    // One of the first 128 tools has a schema that is too large.
    assert_eq!(found.len(), 127);
    assert!(!found.contains_key("large") && found.contains_key("more_0") && !found.contains_key("more_199"));
}
