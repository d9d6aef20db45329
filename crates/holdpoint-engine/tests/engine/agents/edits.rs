//! Answers that edit a call whose server cannot list its tools now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::agent::tool::{Call, Calling, Listing, Toolbox};
use holdpoint_engine::core::TenantId;
use serde_json::json;

use super::{Calls, Office, agent, call, counting_tool, resume};
use crate::house::House;
use crate::place::{Place, on_both};

on_both! {
    an_answer_with_an_edit_does_not_wait_for_a_silent_server,
}

/// Ends a test whose answer never comes. Longer than any answer waits.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A tool whose server accepts requests and may never answer them.
struct Silent {
    tool: Arc<dyn Toolbox>,
    is_silent: Arc<AtomicBool>,
}

impl Toolbox for Silent {
    fn list<'a>(&'a self, tenant: &'a TenantId) -> Listing<'a> {
        match self.is_silent.load(Ordering::SeqCst) {
            true => Box::pin(std::future::pending()),
            false => self.tool.list(tenant),
        }
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        self.tool.call(call)
    }
}

async fn an_answer_with_an_edit_does_not_wait_for_a_silent_server(place: Place) {
    let (calls, is_silent) = (Calls::default(), Arc::new(AtomicBool::new(false)));
    let (name, tool) = counting_tool("send", &calls, false, None);
    let silent: Arc<dyn Toolbox> = Arc::new(Silent { tool, is_silent: is_silent.clone() });
    let settings = AgentSettings { rust: [(name, silent)].into(), ..AgentSettings::default() };
    let house = House::with(place, |options| options.agents(settings)).await;
    let office = Office { house, calls };
    let mut definition =
        agent(&json!([{ "calls": [call("c1", "send", json!({ "to": "ann" }))] }, { "text": "Done." }]));
    definition["tools"] = json!([{ "type": "rust", "name": "send" }]);
    office.hire(definition).await;
    let of = office.told(None, "please").await;
    is_silent.store(true, Ordering::SeqCst);
    let edited = resume("d1", json!({ "arguments": { "to": "bob" } }));
    let decided = tokio::time::timeout(ANSWER_LIMIT, office.decide(&of, "c1", &edited)).await;
    decided.expect("the answer is recorded without the list of tools").unwrap();
    is_silent.store(false, Ordering::SeqCst);
    office.house.drain().await;
    assert_eq!(office.calls(), [("c1".to_owned(), json!({ "to": "bob" }))]);
}
