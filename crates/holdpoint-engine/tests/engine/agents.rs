//! Agents: a scripted model, tools that count how often they are called, and people who decide.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::agent::tool::{Call, Calling, Listing, Returned, ToolSpec, Toolbox};
use holdpoint_engine::core::agent::{
    Agent, CallStatus, Message, PendingToolCall, ResumeDecisionAction, Role, SuspendTicket, Suspension,
    ToolCallResume, ToolCallResumeMode,
};
use holdpoint_engine::core::{NodeId, Owner, Run, RunRef, TenantId};
use holdpoint_engine::{Engine, Error, Options, Talk};
use serde_json::{Value, json};

use crate::house::{House, alice, tenant};
use crate::place::{Place, Subject};

mod confidence;
mod connections;
mod control;
mod copies;
mod decisions;
mod doubts;
mod edits;
mod front;
mod hands;
mod inside;
mod outages;
mod refusals;
mod rules;
mod streams;
mod threads;
mod workflows;

/// What was called, with which arguments, in that order; shared by all engines of a test.
pub(crate) type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// A tool that does what a test wants and remembers that it did.
struct Counting {
    spec: Arc<ToolSpec>,
    calls: Calls,
    /// It asks for something before it does anything, once for each call.
    wants: Option<ToolCallResumeMode>,
}

impl Toolbox for Counting {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(async move {
            self.calls.lock().unwrap().push((call.id.clone(), call.arguments.clone()));
            match self.wants {
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
                    Ok(Returned::Suspended(Box::new(SuspendTicket { suspension, pending, resume_mode })))
                }
                _ => Ok(Returned::Result(json!({ "sent": call.arguments }))),
            }
        })
    }
}

/// A house in which agents work, with the tools `send` and `look` and three that ask back.
pub(super) struct Office {
    house: House,
    calls: Calls,
}

impl Subject for Office {
    async fn at(place: Place) -> Self {
        let calls = Calls::default();
        let house = House::with(place, furnished(&calls)).await;
        Self { house, calls }
    }
}

fn furnished(calls: &Calls) -> impl FnOnce(Options) -> Options + use<> {
    let tool = |name, idempotent, wants| counting_tool(name, calls, idempotent, wants);
    let rust: BTreeMap<_, _> = [
        tool("send", false, None),
        tool("look", true, None),
        tool("replay", false, Some(ToolCallResumeMode::ReplayToolCall)),
        tool("answer", false, Some(ToolCallResumeMode::UseDecisionAsToolResult)),
        tool("pass", false, Some(ToolCallResumeMode::PassDecisionToTool)),
    ]
    .into();
    move |options| options.agents(AgentSettings { rust, ..AgentSettings::default() })
}

pub(crate) fn counting_tool(
    name: &str,
    calls: &Calls,
    idempotent: bool,
    wants: Option<ToolCallResumeMode>,
) -> (String, Arc<dyn Toolbox>) {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        parameters: json!({ "type": "object" }),
        idempotent,
        primary: Some("to".to_owned()),
    };
    (name.to_owned(), Arc::new(Counting { spec: Arc::new(spec), calls: calls.clone(), wants }))
}

/// An agent whose model takes these steps; rules let `look` pass and ask about `send`.
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

/// One call of `send`, and a last word.
fn sends() -> Value {
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

fn refuse(decision_id: &str) -> ToolCallResume {
    let (action, reason) = (ResumeDecisionAction::Cancel, Some("not today".to_owned()));
    ToolCallResume { action, reason, ..resume(decision_id, Value::Null) }
}

fn talk(thread: Option<&str>, text: &str) -> Talk {
    Talk {
        agent: "clerk".to_owned(),
        thread: thread.map(str::to_owned),
        messages: vec![Message::new(format!("m:{text}"), Role::User, text)],
        owner: Owner { tenant: tenant(), principal: "tester".to_owned() },
        start: None,
        once: None,
    }
}

impl Office {
    async fn hire(&self, definition: Value) {
        self.house.engine.put_agent(&tenant(), definition, None).await.unwrap();
    }

    /// An agent with these steps is told something, and goes as far as it can.
    async fn asked(&self, steps: &Value) -> RunRef {
        self.hire(agent(steps)).await;
        self.told(None, "please").await
    }

    async fn told(&self, thread: Option<&str>, text: &str) -> RunRef {
        let run = self.house.engine.start_agent(talk(thread, text)).await.unwrap();
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        self.house.drain().await;
        of
    }

    async fn decide(&self, of: &RunRef, ticket: &str, how: &ToolCallResume) -> Result<Arc<Run>, Error> {
        decide(&self.house.engine, of, ticket, how).await
    }

    async fn agent(&self, of: &RunRef) -> Arc<Agent> {
        agent_of(&*self.house.run(of).await)
    }

    async fn call(&self, of: &RunRef, id: &str) -> CallStatus {
        self.agent(of).await.call(id).unwrap().status
    }

    fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }

    /// How many dispatches of the run there are in each state.
    async fn dispatches(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for row in self.house.place.read("SELECT status FROM dispatches").await {
            let status = row.into_iter().map(|(_, value)| format!("{value:?}")).collect::<String>();
            let name = ["queued", "claimed", "acked", "cancelled", "superseded", "dead_letter"];
            let name = name.into_iter().find(|name| status.contains(name)).unwrap_or("?");
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    }

    /// The same house after the process has gone.
    async fn reopened(self) -> Self {
        let Self { house, calls } = self;
        let house = house.reopen(furnished(&calls)).await;
        Self { house, calls }
    }
}

async fn decide(engine: &Engine, of: &RunRef, ticket: &str, how: &ToolCallResume) -> Result<Arc<Run>, Error> {
    engine.decide_call(of, ticket, how, alice()).await
}

pub(crate) fn agent_of(run: &Run) -> Arc<Agent> {
    run.node_state(&NodeId::parse("agent").unwrap()).unwrap().agent.clone().unwrap()
}
