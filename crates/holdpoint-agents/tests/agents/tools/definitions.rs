//! Validation of definitions of tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_agents::tool::{
    CallOutcome, RustTool, ToolSpec, Toolbox, Tools, WorkflowTool, only_for_operators,
};
use holdpoint_engine::core::WorkflowId;
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use serde_json::{Value, json};

use crate::tools::tool_env::{call, outgoing, parse, program};

fn http(more: Value) -> Value {
    crate::tools::tool_env::with(
        json!({"type": "http", "name": "send", "url": "https://mail.example/x"}),
        more,
    )
}

#[test]
fn an_invalid_definition_is_rejected_with_its_field() {
    let required = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    for (tools, field) in [
        (json!({}), "tools"),
        (json!(["x"]), "tools[0]"),
        (json!([http(json!({})), {"type": "other", "name": "x"}]), "tools[1].type"),
        (json!([{"type": "http"}]), "tools[0].name"),
        (json!([http(json!({"name": "not a name"}))]), "tools[0].name"),
        (json!([http(json!({})), program(json!({"name": "send"}))]), "tools[1].name"),
        (json!([http(json!({"more": 1}))]), "tools[0].more"),
        (json!([http(json!({"method": "HEAD"}))]), "tools[0].method"),
        (json!([http(json!({"url": "ftp://mail.example/"}))]), "tools[0].url"),
        (json!([http(json!({"url": "https://{host}/"}))]), "tools[0].url"),
        (json!([http(json!({"url": "https://mail.example/{id}", "parameters": required}))]), "tools[0].url"),
        (json!([http(json!({"parameters": {"type": "object", "properties": 5}}))]), "tools[0].parameters"),
        (json!([http(json!({"parameters": {"type": "string"}}))]), "tools[0].parameters"),
        (json!([http(json!({"headers": {"Host": "x"}}))]), "tools[0].headers.Host"),
        (json!([http(json!({"headers": {"idempotency-key": "x"}}))]), "tools[0].headers.idempotency-key"),
        (json!([http(json!({"headers": {"X": {"env": "HOLDPOINT_NOT_SET"}}}))]), "tools[0].headers.X"),
        (json!([http(json!({"timeoutMs": 0}))]), "tools[0].timeoutMs"),
        (json!([program(json!({"command": []}))]), "tools[0].command"),
        (json!([program(json!({"url": "https://x.example/"}))]), "tools[0].command"),
        (json!([program(json!({"headers": {}}))]), "tools[0].headers"),
        (json!([program(json!({"tools": "x"}))]), "tools[0].tools"),
        (
            json!([{"type": "mcp", "name": "x", "url": "https://x.example/", "headers": {"Mcp-Session-Id": "x"}}]),
            "tools[0].headers.Mcp-Session-Id",
        ),
        (json!([{"type": "mcp", "name": "x", "use": "gone"}]), "tools[0].use"),
        (json!([{"type": "rust", "name": "gone"}]), "tools[0].name"),
        (json!([{"type": "workflow", "name": "refund"}]), "tools[0].workflowId"),
    ] {
        match parse(tools.clone()) {
            Err(bad) => assert_eq!(bad.field, field, "{tools}: {bad}"),
            Ok(_) => panic!("{tools}"),
        }
    }
}

#[test]
fn addresses_in_definitions_follow_the_outgoing_policy() {
    let strict = Outgoing::new(OutgoingPolicy::default());
    let parse = |tool: Value| Tools::from_definition(&json!([tool]), None, &strict, &BTreeMap::new());
    assert!(parse(http(json!({}))).is_ok());
    for url in
        ["http://mail.example/", "https://127.0.0.1/", "https://169.254.169.254/x", "https://localhost/"]
    {
        assert_eq!(parse(http(json!({"url": url}))).unwrap_err().field, "tools[0].url", "{url}");
        let server = json!({"type": "mcp", "name": "x", "url": url});
        assert_eq!(parse(server).unwrap_err().field, "tools[0].url", "{url}");
    }
}

#[test]
fn members_that_only_operators_may_use_are_found() {
    for (tool, field) in [
        (program(json!({})), Some("tools[0].command")),
        (http(json!({"headers": {"A": "plain", "B": {"env": "X"}}})), Some("tools[0].headers.B")),
        (http(json!({"headers": {"A": "plain"}})), None),
    ] {
        assert_eq!(only_for_operators(&json!([tool])).map(|bad| bad.field).as_deref(), field, "{tool}");
    }
}

#[tokio::test]
async fn workflow_tools_are_returned_as_data_and_rust_tools_are_called() {
    let spec = ToolSpec {
        name: "double".to_owned(),
        description: "doubles".to_owned(),
        parameters: json!({"type": "object"}),
        idempotent: true,
        primary: None,
    };
    let double = RustTool::new(spec, |call| async move {
        Ok(CallOutcome::Result(json!(call.arguments["n"].as_i64().unwrap_or_default() * 2)))
    });
    let rust: BTreeMap<String, Arc<dyn Toolbox>> = [("double".to_owned(), Arc::new(double) as _)].into();
    let definition = json!([
        {"type": "rust", "name": "double"},
        {"type": "workflow", "name": "refund", "workflowId": "refunds", "description": "pays back"},
    ]);
    let tools = Tools::from_definition(&definition, None, &outgoing(), &rust).unwrap();
    let called = tools.call(&call("double", json!({"n": 21}))).await;
    assert_eq!(called, Ok(CallOutcome::Result(json!(42))));
    assert_eq!(
        tools.workflows(),
        [WorkflowTool {
            name: "refund".to_owned(),
            workflow: WorkflowId::parse("refunds").unwrap(),
            description: "pays back".to_owned(),
            parameters: None,
        }]
    );
}
