//! kill -9 around approved tool calls: before they are made, while they are in flight, and after their result is
//! recorded. The tools are an MCP server that is a program, one behind a URL, and HTTP requests.

use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::tool_server::{
    AgentRun, Note, ToolServer, cancel, descendants, of_call, resume, wait_for_process_end, wait_until,
};

const CONFIRM: &str = "tool:PermissionConfirm";
const UNKNOWN: &str = "tool:OutcomeUnknown";

/// Runs per kill, and the number of kills.
const AGENT_RUNS: usize = 6;
const KILLS: usize = 3;

on_both!(
    a_call_decided_before_kill_9_is_made_once_after_it,
    a_recorded_result_is_kept_when_the_next_call_is_decided,
);

macro_rules! with_each_kind_of_tool {
    ($($test:ident),+ $(,)?) => {
        with_each_kind_of_tool!(program: $($test),+);
        with_each_kind_of_tool!(web: $($test),+);
        with_each_kind_of_tool!(plain: $($test),+);
    };
    ($kind:ident: $($test:ident),+) => {
        mod $kind {
            $(#[test]
            fn $test() {
                super::$test(crate::tool_server::ToolServer::$kind());
            })+
        }
    };
}

// On SQLite the next start knows that the previous process has ended. On PostgreSQL its lease must expire first; the
// tests with several nodes cover that.
with_each_kind_of_tool!(
    a_call_in_flight_is_escalated_and_retried_if_approved,
    a_call_in_flight_is_escalated_and_not_retried_if_cancelled,
    a_call_in_flight_is_escalated_and_not_retried_if_its_result_is_given,
    an_idempotent_call_in_flight_is_retried_without_an_approval,
    a_recorded_result_is_kept_while_another_call_was_in_flight,
);

fn kinds() -> [ToolServer; 3] {
    [ToolServer::program(), ToolServer::web(), ToolServer::plain()]
}

/// The first decision is stored when it is acknowledged. The calls wait for the second decision, after the kill.
fn a_call_decided_before_kill_9_is_made_once_after_it(database: &TestDatabase) {
    for (at, tool_server) in kinds().into_iter().enumerate() {
        let calls = [tool_server.call("c1", "first"), tool_server.call("c2", "second")];
        let agent = format!("clerk{at}");
        let steps = json!([{"calls": calls}, {"text": "Done."}]);
        tool_server.declare_agent(&agent, &steps, &json!({"resume": "wait_all"}));
        let mut server = tool_server.start(database);
        let agent_run = AgentRun::start(&server.client, &agent, &agent);
        agent_run.wait_for_tickets(CONFIRM, &["c1", "c2"]);
        let agent_run = AgentRun { client: &server.client.clone(), ..agent_run };
        agent_run.decide(&resume("c1"));
        server.kill();
        assert!(tool_server.effects().is_empty());
        let server = tool_server.start(database);
        let agent_run = agent_run.with(&server.client);
        agent_run.wait_for_tickets(CONFIRM, &["c2"]);
        assert!(tool_server.effects().is_empty(), "the other call is not decided yet");
        agent_run.decide(&resume("c2"));
        agent_run.wait_for_completion();
        let mut done = tool_server.effects();
        done.sort();
        assert_eq!(done, ["first", "second"]);
    }
}

/// The kill follows the last acknowledgement: some calls are completed, some are in flight, some have not started.
#[test]
fn each_decision_is_carried_out_once_at_any_time_of_the_kill() {
    let (database, tool_server) = (TestDatabase::sqlite(), ToolServer::program());
    for kill in 0..KILLS {
        let named: Vec<String> = (0..AGENT_RUNS).map(|at| format!("clerk-{kill}-{at}")).collect();
        for name in &named {
            let steps = json!([{"calls": [tool_server.call("c1", name)]}, {"text": "Done: {{lastResult}}"}]);
            tool_server.declare_agent(name, &steps, &json!({}));
        }
        let mut server = tool_server.start(&database);
        let client = server.client.clone();
        let agent_runs: Vec<AgentRun<'_>> =
            named.iter().map(|name| AgentRun::start(&client, name, name)).collect();
        agent_runs.iter().for_each(|agent_run| drop(agent_run.wait_for_tickets(CONFIRM, &["c1"])));
        let programs = descendants(&server);
        assert!(!programs.is_empty());
        agent_runs.iter().for_each(|agent_run| agent_run.decide(&resume("c1")));
        server.kill();
        // A program may still carry out its last call. It ends because its connection is closed.
        programs.into_iter().for_each(wait_for_process_end);
        let server = tool_server.start(&database);
        for (agent_run, name) in agent_runs.iter().zip(&named) {
            let agent_run = agent_run.with(&server.client);
            if has_unknown_outcome(&agent_run) {
                let done = tool_server.effects().contains(name);
                let known = json!({"toolCallId": "c1", "action": "resume", "result": {"result": name}});
                agent_run.decide(&if done { known } else { resume("c1") });
            }
            let log = agent_run.wait_for_completion();
            assert_eq!(of_call(&log, "agent.toolReturned", "c1").len(), 1);
            assert!(agent_run.call_result("c1").1.ends_with(name.as_str()));
            assert_eq!(tool_server.effects().iter().filter(|text| *text == name).count(), 1, "{name}");
        }
    }
}

/// Waits until the run has ended or asks about an unknown outcome. Returns true if it asks.
fn has_unknown_outcome(agent_run: &AgentRun<'_>) -> bool {
    wait_until("the end or an open interrupt", || match agent_run.client.status(&agent_run.run).as_str() {
        "completed" => Some(false),
        "waiting-approval" => Some(true),
        _ => None,
    })
}

/// Approves a call, kills the server while the call is in flight, and restarts it.
fn kill_during_call(tool_server: &ToolServer, then: impl FnOnce(&AgentRun<'_>)) {
    kill_during_call_after(tool_server, &resume("c1"), then);
}

fn kill_during_call_after(tool_server: &ToolServer, decision: &Value, then: impl FnOnce(&AgentRun<'_>)) {
    let database = TestDatabase::sqlite();
    let steps =
        json!([{"calls": [tool_server.stalling_call("c1", "first")]}, {"text": "I got: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let mut server = tool_server.start(&database);
    let client = server.client.clone();
    let agent_run = AgentRun::start(&client, "clerk", "t1");
    agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    agent_run.decide(decision);
    tool_server.wait_for(1);
    let programs = descendants(&server);
    server.kill();
    programs.into_iter().for_each(wait_for_process_end);
    let server = tool_server.start(&database);
    then(&agent_run.with(&server.client));
}

fn assert_one_call(notes: &[Note], times: usize) {
    assert_eq!(notes.len(), times, "{notes:?}");
    let same = notes.iter().all(|note| note.key == notes[0].key && note.text == "first");
    assert!(same && !notes[0].key.is_empty(), "all attempts have the same key and text: {notes:?}");
}

fn a_call_in_flight_is_escalated_and_retried_if_approved(tool_server: ToolServer) {
    kill_during_call(&tool_server, |agent_run| {
        let tickets = agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
        assert_eq!(tickets[0]["arguments"], json!({"text": "first"}));
        assert_one_call(&tool_server.notes(), 1);
        agent_run.decide(&resume("c1"));
        agent_run.wait_for_completion();
        assert_one_call(&tool_server.notes(), 2);
        assert_eq!(agent_run.call_result("c1"), (json!("noted first"), "I got: noted first".to_owned()));
    });
}

fn a_call_in_flight_is_escalated_and_not_retried_if_cancelled(tool_server: ToolServer) {
    kill_during_call(&tool_server, |agent_run| {
        agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
        agent_run.decide(&cancel("c1", "leave it"));
        agent_run.wait_for_completion();
        assert_one_call(&tool_server.notes(), 1);
        assert_eq!(agent_run.call_result("c1").0, json!({"cancelled": "leave it"}));
    });
}

fn a_call_in_flight_is_escalated_and_not_retried_if_its_result_is_given(tool_server: ToolServer) {
    kill_during_call(&tool_server, |agent_run| {
        agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
        agent_run
            .decide(&json!({"toolCallId": "c1", "action": "resume", "result": {"result": "it was done"}}));
        agent_run.wait_for_completion();
        assert_one_call(&tool_server.notes(), 1);
        assert_eq!(agent_run.call_result("c1"), (json!("it was done"), "I got: it was done".to_owned()));
    });
}

/// The interrupt about the unknown outcome and the retry have the approved arguments.
#[test]
fn a_retried_call_keeps_its_edited_arguments() {
    let tool_server = ToolServer::program();
    let edited = json!({"toolCallId": "c1", "action": "resume", "result": {"arguments": {"text": "edited"}}});
    kill_during_call_after(&tool_server, &edited, |agent_run| {
        let tickets = agent_run.wait_for_tickets(UNKNOWN, &["c1"]);
        assert_eq!(tickets[0]["arguments"], json!({"text": "edited"}));
        agent_run.decide(&resume("c1"));
        agent_run.wait_for_completion();
        assert_eq!(tool_server.effects(), ["edited", "edited"]);
    });
}

fn an_idempotent_call_in_flight_is_retried_without_an_approval(tool_server: ToolServer) {
    let tool_server = tool_server.set_idempotent();
    kill_during_call(&tool_server, |agent_run| {
        let log = agent_run.wait_for_completion();
        assert_one_call(&tool_server.notes(), 2);
        let asked: Vec<&Value> = of_call(&log, "holdpoint.tool.suspended", "c1");
        assert_eq!(asked.len(), 1, "only the permission was asked for: {asked:?}");
        assert_eq!(agent_run.call_result("c1").0, json!("noted first"));
    });
}

fn a_recorded_result_is_kept_while_another_call_was_in_flight(tool_server: ToolServer) {
    let database = TestDatabase::sqlite();
    let calls = [tool_server.call("c1", "first"), tool_server.stalling_call("c2", "second")];
    let steps = json!([{"calls": calls}, {"text": "Done."}]);
    tool_server.declare_agent("clerk", &steps, &json!({"resume": "wait_all"}));
    let mut server = tool_server.start(&database);
    let client = server.client.clone();
    let agent_run = AgentRun::start(&client, "clerk", "t1");
    agent_run.wait_for_tickets(CONFIRM, &["c1", "c2"]);
    agent_run.decide(&resume("c1"));
    agent_run.decide(&resume("c2"));
    let returned =
        |event: &Value| event["type"] == "agent.toolReturned" && event["payload"]["callId"] == "c1";
    client.wait_for_event(&agent_run.run, returned);
    tool_server.wait_for(2);
    server.kill();
    let server = tool_server.start(&database);
    let agent_run = agent_run.with(&server.client);
    agent_run.wait_for_tickets(UNKNOWN, &["c2"]);
    agent_run.decide(&cancel("c2", "leave it"));
    let log = agent_run.wait_for_completion();
    let mut done = tool_server.effects();
    done.sort();
    assert_eq!(done, ["first", "second"], "each once");
    assert_eq!(of_call(&log, "agent.toolReturned", "c1").len(), 1);
    assert_eq!(agent_run.call_result("c1").0, json!("noted first"));
}

fn a_recorded_result_is_kept_when_the_next_call_is_decided(database: &TestDatabase) {
    for (at, tool_server) in kinds().into_iter().enumerate() {
        let agent = format!("clerk{at}");
        let steps = json!([
            {"calls": [tool_server.call("c1", "first")]}, {"calls": [tool_server.call("c2", "second")]}, {"text": "Done."},
        ]);
        tool_server.declare_agent(&agent, &steps, &json!({}));
        let mut server = tool_server.start(database);
        let client = server.client.clone();
        let agent_run = AgentRun::start(&client, &agent, &agent);
        agent_run.wait_for_tickets(CONFIRM, &["c1"]);
        agent_run.decide(&resume("c1"));
        agent_run.wait_for_tickets(CONFIRM, &["c2"]);
        assert_eq!(tool_server.effects(), ["first"]);
        server.kill();
        let server = tool_server.start(database);
        let agent_run = agent_run.with(&server.client);
        agent_run.decide(&resume("c2"));
        agent_run.wait_for_completion();
        assert_eq!(tool_server.effects(), ["first", "second"]);
        assert_eq!(agent_run.call_result("c1").0, json!("noted first"));
    }
}
