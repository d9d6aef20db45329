//! Answers that edit a call while its server does not list its tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdpoint_agents::tool::{Call, CallFuture, ListFuture, Toolbox};
use holdpoint_agents::{AgentRuntime, AgentSettings};
use holdpoint_engine::core::TenantId;
use serde_json::json;

use super::{AgentEnv, Calls, agent, call, counting_tool, resume};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::TestEnv;

on_both! {
    an_answer_with_an_edit_does_not_wait_for_a_silent_server,
}

/// The time after which the test fails. Longer than any answer takes.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A tool whose server can stop responding to requests for its list.
struct SilentTool {
    tool: Arc<dyn Toolbox>,
    is_silent: Arc<AtomicBool>,
}

impl Toolbox for SilentTool {
    fn list<'a>(&'a self, tenant: &'a TenantId) -> ListFuture<'a> {
        match self.is_silent.load(Ordering::SeqCst) {
            true => Box::pin(std::future::pending()),
            false => self.tool.list(tenant),
        }
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        self.tool.call(call)
    }
}

async fn an_answer_with_an_edit_does_not_wait_for_a_silent_server(database: TestDatabase) {
    let (calls, is_silent) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    let (name, tool) = counting_tool("send", &calls, false, None);
    let silent: Arc<dyn Toolbox> = Arc::new(SilentTool { tool, is_silent: is_silent.clone() });
    let settings = AgentSettings { rust: [(name, silent)].into(), ..AgentSettings::default() };
    let env = TestEnv::with(database, |options| options.extension(AgentRuntime::new(settings))).await;
    let agents = AgentEnv { env, calls };
    let mut definition =
        agent(&json!([{ "calls": [call("c1", "send", json!({ "to": "ann" }))] }, { "text": "Done." }]));
    definition["tools"] = json!([{ "type": "rust", "name": "send" }]);
    agents.declare(definition).await;
    let of = agents.send(None, "please").await;
    is_silent.store(true, Ordering::SeqCst);
    let edited = resume("d1", json!({ "arguments": { "to": "bob" } }));
    let decided = tokio::time::timeout(ANSWER_LIMIT, agents.decide(&of, "c1", &edited)).await;
    decided.expect("the answer is recorded without the list of tools").unwrap();
    is_silent.store(false, Ordering::SeqCst);
    agents.env.drain().await;
    assert_eq!(agents.calls(), [("c1".to_owned(), json!({ "to": "bob" }))]);
}
