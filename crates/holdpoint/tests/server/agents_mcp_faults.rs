//! MCP servers that die during a call, cannot be started or do not respond: the consequences for the agent, its
//! approvers and its run. After a shutdown of Holdpoint, no process of a tool server remains.

use serde_json::{Value, json};

use crate::harness::Server;
use crate::test_database::TestDatabase;
use crate::tool_server::{
    AgentRun, ToolServer, cancel, descendants, of_call, resume, server_script, wait_for_process_end,
    wait_until,
};

const CONFIRM: &str = "tool:PermissionConfirm";
const UNKNOWN: &str = "tool:OutcomeUnknown";

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "arguments": {}})
}

/// Starts a run and approves its first call.
fn start_and_allow<'a>(server: &'a Server, thread: &str) -> AgentRun<'a> {
    let agent_run = AgentRun::start(&server.client, "clerk", thread);
    agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    agent_run.decide(&resume("c1"));
    agent_run
}

#[test]
fn a_call_whose_server_dies_is_escalated_and_the_next_call_restarts_the_server() {
    let (database, tool_server) = (TestDatabase::sqlite(), ToolServer::program());
    let steps = json!([
        {"calls": [call("c1", "die")]}, {"calls": [tool_server.call("c2", "second")]}, {"text": "I got: {{lastResult}}"},
    ]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let server = tool_server.start(&database);
    let agent_run = start_and_allow(&server, "t1");
    let asked = agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
    let message = asked[0]["message"].as_str().unwrap();
    assert!(
        message.contains("whether die was carried out: the MCP server own: it ended before it"),
        "{message}"
    );
    agent_run.decide(&cancel("c1", "leave it"));
    agent_run.wait_for_tickets(CONFIRM, &["c2"]);
    agent_run.decide(&resume("c2"));
    agent_run.wait_for_completion();
    assert_eq!(agent_run.call_result("c1").0, json!({"cancelled": "leave it"}));
    assert_eq!(agent_run.call_result("c2"), (json!("noted second"), "I got: noted second".to_owned()));
}

#[test]
fn an_idempotent_call_that_always_fails_is_reported_to_the_agent() {
    let (database, tool_server) = (TestDatabase::sqlite(), ToolServer::program().set_idempotent());
    let steps = json!([{"calls": [call("c1", "die")]}, {"text": "I got: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let server = tool_server.start(&database);
    let agent_run = start_and_allow(&server, "t1");
    let log = agent_run.wait_for_completion();
    assert_eq!(of_call(&log, "agent.toolReturned", "c1")[0]["payload"]["status"], "failed");
    let (told, last) = agent_run.call_result("c1");
    assert!(told["error"].as_str().unwrap().contains("the MCP server own"), "{told}");
    assert!(last.contains("the MCP server own"), "{last}");
}

#[test]
fn a_call_that_times_out_is_escalated_with_the_reason() {
    for tool_server in [ToolServer::program(), ToolServer::web()] {
        let (database, tool_server) = (TestDatabase::sqlite(), tool_server.with("timeoutMs", &json!(2000)));
        let steps =
            json!([{"calls": [tool_server.stalling_call("c1", "first")]}, {"text": "I got: {{lastResult}}"}]);
        tool_server.declare_agent("clerk", &steps, &json!({}));
        let server = tool_server.start(&database);
        let agent_run = start_and_allow(&server, "t1");
        let asked = agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
        let message = asked[0]["message"].as_str().unwrap();
        assert!(message.contains("the MCP server own: no answer within 2000 ms"), "{message}");
        assert_eq!(tool_server.effects(), ["first"]);
        agent_run.decide(&resume("c1"));
        agent_run.wait_for_completion();
        assert_eq!(tool_server.effects(), ["first", "first"]);
        assert_eq!(agent_run.call_result("c1").1, "I got: noted first");
    }
}

/// The run asks the server for its tools first, and retries for a while.
#[test]
fn an_unreachable_server_delays_the_run_and_the_run_names_it() {
    std::thread::scope(|scope| {
        for (command, why) in [
            (json!(["/no/such/program"]), "/no/such/program cannot be started: No such file"),
            (json!(["sleep", "1000"]), "it did not answer in time"),
            (json!(["python3", server_script(), "--exit"]), ""),
        ] {
            scope.spawn(move || assert_unreachable(&command, why));
        }
    });
}

fn assert_unreachable(command: &Value, why: &str) {
    let tool_server = ToolServer::program().with("command", command).with("timeoutMs", &json!(1000));
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "Done."}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let database = TestDatabase::sqlite();
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    let delay = wait_for_delay(&agent_run, |delay| delay["until"].is_string());
    let message = delay["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("the MCP server own cannot be reached") && message.contains(why),
        "{message}"
    );
    wait_until("the delay is counted", || {
        let metrics = server.client.get("/metrics").body;
        metrics.as_str()?.contains("\nholdpoint_node_delays_total 1\n").then_some(())
    });
}

/// Waits until the snapshot of the run shows a matching delay.
fn wait_for_delay(agent_run: &AgentRun<'_>, fits: impl Fn(&Value) -> bool) -> Value {
    wait_until("the run is delayed", || {
        let run = agent_run.client.get(&format!("/v1/runs/{}", agent_run.run)).body;
        assert_eq!(run["status"], "running", "{run}");
        Some(run["nodeStates"]["agent"]["delay"].clone()).filter(|delay| delay.is_object() && fits(delay))
    })
}

#[test]
fn a_run_whose_server_was_away_too_long_continues_after_a_requeue() {
    let tool_server = ToolServer::program().with_outage_ms(2000);
    let script = tool_server.path("server.py");
    let tool_server = tool_server.with("command", &json!(["python3", script]));
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "I got: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let database = TestDatabase::sqlite();
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    wait_for_delay(&agent_run, |delay| delay["until"].is_null());
    // The id of the run and the id of its thread name the same queue.
    for id in [agent_run.run.as_str(), "t1"] {
        let found = server.client.get(&format!("/v1/threads/{id}/dispatches")).body;
        assert_eq!(found["dispatches"][0]["status"], "dead_letter", "{found}");
    }
    let found = server.client.get("/v1/threads/t1/dispatches").body;
    let dispatch = found["dispatches"][0]["dispatchId"].as_str().unwrap().to_owned();
    std::fs::copy(server_script(), &script).unwrap();
    let requeued = server.client.post(&format!("/v1/dispatches/{dispatch}/requeue"), &json!({}));
    assert_eq!(requeued.status, 201, "{requeued:?}");
    agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    agent_run.decide(&resume("c1"));
    agent_run.wait_for_completion();
    assert_eq!(tool_server.effects(), ["first"]);
}

#[test]
fn a_refused_connection_means_not_called_and_the_approver_is_asked_again() {
    let (database, mut tool_server) = (TestDatabase::sqlite(), ToolServer::plain());
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "I got: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    tool_server.stop_web();
    agent_run.decide(&resume("c1"));
    let asked = agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
    let message = asked[0]["message"].as_str().unwrap();
    assert!(message.starts_with("note was not carried out: "), "{message}");
    assert!(message.contains("cannot connect to"), "{message}");
}

/// The ticket of a call exists while another call of the same reply is in flight.
#[test]
fn an_approver_is_asked_while_a_slow_call_of_the_same_reply_runs() {
    let (database, tool_server) = (TestDatabase::sqlite(), ToolServer::plain());
    let calls = json!([tool_server.stalling_call("c1", "slow"), tool_server.call("c2", "asked")]);
    let rules = json!({"permissions": {"default": "ask", "rules": ["allow stall"]}});
    tool_server.declare_agent("clerk", &json!([{"calls": calls}, {"text": "Done."}]), &rules);
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    tool_server.wait_for(1);
    agent_run.wait_for_tickets(CONFIRM, &["c2"]);
    let run = server.client.get(&format!("/v1/runs/{}", agent_run.run)).body;
    assert_eq!(run["status"], "running", "{run}");
    let pending = server.client.get("/v1/interrupts").body;
    assert_eq!(pending["interrupts"].as_array().map(Vec::len), Some(1), "{pending}");
}

/// Returns a program that starts a child process. The child does not notice when the connection ends.
fn with_child_process() -> ToolServer {
    let command = json!(["sh", "-c", "sleep 1000 & exec python3 \"$0\"", server_script()]);
    ToolServer::program().with("command", &command)
}

#[test]
fn processes_of_tool_servers_end_with_a_clean_shutdown() {
    let (database, tool_server) = (TestDatabase::sqlite(), with_child_process());
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "Done."}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let mut server = tool_server.start(&database);
    start_and_allow(&server, "t1").wait_for_completion();
    let left = descendants(&server);
    assert_eq!(left.len(), 2, "the server and its child process: {left:?}");
    server.terminate();
    assert!(server.wait().success());
    left.into_iter().for_each(wait_for_process_end);
}

#[test]
fn a_call_in_flight_at_shutdown_is_escalated_and_leaves_no_process() {
    let (database, tool_server) = (TestDatabase::sqlite(), with_child_process());
    let steps = json!([{"calls": [tool_server.stalling_call("c1", "first")]}, {"text": "Done."}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let mut server = tool_server.start(&database);
    let client = server.client.clone();
    let agent_run = AgentRun { client: &client, ..start_and_allow(&server, "t1") };
    tool_server.wait_for(1);
    let left = descendants(&server);
    assert_eq!(left.len(), 2, "{left:?}");
    server.terminate();
    assert!(server.wait().success());
    left.into_iter().for_each(wait_for_process_end);
    let mut server = tool_server.start(&database);
    let client = server.client.clone();
    let agent_run = agent_run.with(&client);
    agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
    agent_run.decide(&cancel("c1", "leave it"));
    agent_run.wait_for_completion();
    assert_eq!(tool_server.effects(), ["first"]);
    // A kill would leave the child process behind.
    server.terminate();
    assert!(server.wait().success());
}
