//! Agents with a scripted model, tools that record their calls, and approvers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdpoint_agents::tool::{Call, CallFuture, CallOutcome, ListFuture, ToolSpec, Toolbox};
use holdpoint_agents::{AgentInput, AgentRuntime, AgentSettings, EngineAgents};
use holdpoint_engine::core::agent::{
    Agent, CallStatus, Message, PendingToolCall, ResumeDecisionAction, Role, SuspendTicket, Suspension,
    ToolCallResume, ToolCallResumeMode,
};
use holdpoint_engine::core::{NodeId, Owner, Run, RunRef, TenantId};
use holdpoint_engine::{Engine, Error, Options};
use serde_json::{Value, json};

use crate::test_database::{Subject, TestDatabase};
use crate::test_env::{TestEnv, alice, tenant};

mod budgets;
mod confidence;
mod connections;
mod control;
mod copies;
mod decisions;
mod edits;
mod endpoint_models;
mod front_ends;
mod local_agents;
mod local_handoff;
mod long_threads;
mod outages;
mod refusals;
mod rules;
mod slow_models;
mod streamed_parts;
mod streams;
mod threads;
mod unknown_outcomes;
mod workflows;

/// The ids and arguments of all calls in order. All engines of a test share them.
pub(crate) type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// A tool that records its calls.
struct CountingTool {
    spec: Arc<ToolSpec>,
    calls: Calls,
    /// The resume mode of the suspension that the tool returns for the first attempt of each call.
    suspends: Option<ToolCallResumeMode>,
}

impl Toolbox for CountingTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(async move {
            self.calls.lock().unwrap().push((call.id.clone(), call.arguments.clone()));
            match self.suspends {
                Some(resume_mode) if call.decision.is_none() => {
                    let suspension = Suspension {
                        id: format!("wants_{}", call.id),
                        action: "pick".to_owned(),
                        message: "How many?".to_owned(),
                        parameters: Value::Null,
                        response_schema: Some(json!({ "type": "object", "required": ["n"] })),
                    };
                    let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
                    let pending = PendingToolCall { id, name, arguments };
                    Ok(CallOutcome::Suspended(Box::new(SuspendTicket { suspension, pending, resume_mode })))
                }
                _ => Ok(CallOutcome::Result(json!({ "sent": call.arguments }))),
            }
        })
    }
}

/// A test environment with the tools `send` and `look` and three tools that suspend their calls.
pub(super) struct AgentEnv {
    env: TestEnv,
    calls: Calls,
}

impl Subject for AgentEnv {
    async fn at(database: TestDatabase) -> Self {
        let calls = Calls::default();
        let env = TestEnv::with(database, with_tools(&calls)).await;
        Self { env, calls }
    }
}

fn with_tools(calls: &Calls) -> impl FnOnce(Options) -> Options + use<> {
    let tool = |name, idempotent, suspends| counting_tool(name, calls, idempotent, suspends);
    let rust: BTreeMap<_, _> = [
        tool("send", false, None),
        tool("look", true, None),
        tool("replay", false, Some(ToolCallResumeMode::ReplayToolCall)),
        tool("answer", false, Some(ToolCallResumeMode::UseDecisionAsToolResult)),
        tool("pass", false, Some(ToolCallResumeMode::PassDecisionToTool)),
    ]
    .into();
    move |options| options.extension(AgentRuntime::new(AgentSettings { rust, ..AgentSettings::default() }))
}

pub(crate) fn counting_tool(
    name: &str,
    calls: &Calls,
    idempotent: bool,
    suspends: Option<ToolCallResumeMode>,
) -> (String, Arc<dyn Toolbox>) {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        parameters: json!({ "type": "object" }),
        idempotent,
        primary: Some("to".to_owned()),
    };
    (name.to_owned(), Arc::new(CountingTool { spec: Arc::new(spec), calls: calls.clone(), suspends }))
}

/// An agent whose model takes these steps. Its rules allow `look` and ask about `send`.
fn agent(steps: &Value) -> Value {
    let names = ["send", "look", "replay", "answer", "pass"];
    let tools: Vec<Value> = names.iter().map(|name| json!({ "type": "rust", "name": name })).collect();
    json!({
        "agentId": "clerk", "instructions": "Be brief.", "model": { "provider": "scripted", "steps": steps },
        "tools": tools,
        "permissions": { "rules": [
            { "tool": "look", "behavior": "allow" }, { "tool": "send", "behavior": "ask" },
            { "tool": "/replay|answer|pass/", "behavior": "allow" },
        ] },
    })
}

fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({ "id": id, "name": name, "arguments": arguments })
}

/// One call of `send` and a final reply.
fn send_script() -> Value {
    json!([{ "calls": [call("c1", "send", json!({ "to": "bob" }))] }, { "text": "Done." }])
}

fn resume(decision_id: &str, result: Value) -> ToolCallResume {
    ToolCallResume {
        decision_id: decision_id.to_owned(),
        action: ResumeDecisionAction::Resume,
        result,
        reason: None,
        updated_at: 0,
    }
}

fn reject(decision_id: &str) -> ToolCallResume {
    let (action, reason) = (ResumeDecisionAction::Cancel, Some("not today".to_owned()));
    ToolCallResume { action, reason, ..resume(decision_id, Value::Null) }
}

fn input(thread: Option<&str>, text: &str) -> AgentInput {
    AgentInput {
        agent: "clerk".to_owned(),
        thread: thread.map(str::to_owned),
        messages: vec![Message::new(format!("m:{text}"), Role::User, text)],
        owner: Owner { tenant: tenant(), principal: "tester".to_owned() },
        start: None,
        once: None,
    }
}

impl AgentEnv {
    async fn declare(&self, definition: Value) {
        self.env.engine.agents().put(&tenant(), definition, None).await.unwrap();
    }

    /// Declares an agent with these steps, sends it a message and drains the worker.
    async fn run_script(&self, steps: &Value) -> RunRef {
        self.declare(agent(steps)).await;
        self.send(None, "please").await
    }

    /// Starts a run with this message and drains the worker.
    async fn send(&self, thread: Option<&str>, text: &str) -> RunRef {
        let run = self.env.engine.agents().start(input(thread, text)).await.unwrap();
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        self.env.drain().await;
        of
    }

    async fn decide(&self, of: &RunRef, ticket: &str, how: &ToolCallResume) -> Result<Arc<Run>, Error> {
        decide(&self.env.engine, of, ticket, how).await
    }

    async fn agent(&self, of: &RunRef) -> Arc<Agent> {
        agent_of(&*self.env.run(of).await)
    }

    async fn call(&self, of: &RunRef, id: &str) -> CallStatus {
        self.agent(of).await.call(id).unwrap().status
    }

    fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }

    /// Counts the dispatches by status.
    async fn dispatches(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for row in self.env.database.read("SELECT status FROM dispatches").await {
            let status = row.into_iter().map(|(_, value)| format!("{value:?}")).collect::<String>();
            let name = ["queued", "claimed", "acked", "cancelled", "superseded", "dead_letter"];
            let name = name.into_iter().find(|name| status.contains(name)).unwrap_or("?");
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Restarts the engine.
    async fn reopen(self) -> Self {
        let Self { env, calls } = self;
        let env = env.reopen(with_tools(&calls)).await;
        Self { env, calls }
    }
}

async fn decide(engine: &Engine, of: &RunRef, ticket: &str, how: &ToolCallResume) -> Result<Arc<Run>, Error> {
    engine.agents().decide_call(of, ticket, how, alice()).await
}

pub(crate) fn agent_of(run: &Run) -> Arc<Agent> {
    run.node_state(&NodeId::parse("agent").unwrap()).unwrap().agent.clone().unwrap()
}
