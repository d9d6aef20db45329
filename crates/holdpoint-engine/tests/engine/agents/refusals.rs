//! MCP servers whose addresses the operator's policy refuses. Waiting does not help there.

use holdpoint_engine::Options;
use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::core::{End, RunError, RunRef};
use holdpoint_engine::outgoing::{Outgoing, Policy, Resolver, Script};
use serde_json::json;

use super::{Calls, Office, agent};
use crate::house::House;
use crate::place::{Place, on_both};

on_both! {
    a_server_whose_address_is_refused_fails_the_run_at_once,
    a_server_without_an_address_is_waited_for,
}

/// An office in which `tools.example` has this address.
async fn office(place: Place, address: Option<[u8; 4]>) -> Office {
    let script = match address {
        Some(address) => Script::default().answer("tools.example", &[address.into()]),
        None => Script::default(),
    };
    let tools = Outgoing::new(Policy { resolver: Resolver::Scripted(script), ..Policy::default() });
    let settings = AgentSettings { tools, ..AgentSettings::default() };
    let house = House::with(place, |options: Options| options.agents(settings)).await;
    let office = Office { house, calls: Calls::default() };
    let mut definition = agent(&json!([{ "text": "Done." }]));
    definition["tools"] = json!([{ "type": "mcp", "name": "files", "url": "https://tools.example/mcp" }]);
    office.hire(definition).await;
    office
}

async fn error_of(office: &Office, of: &RunRef) -> RunError {
    match office.house.run(of).await.end.clone() {
        Some(End::Failed { error, .. }) => error,
        other => panic!("the run did not fail: {other:?}"),
    }
}

async fn a_server_whose_address_is_refused_fails_the_run_at_once(place: Place) {
    let office = office(place, Some([10, 0, 0, 1])).await;
    let of = office.told(None, "please").await;
    let error = error_of(&office, &of).await;
    assert_eq!(error.code, "connection_not_allowed");
    assert!(error.message.starts_with("the MCP server files must not be called: tools.example"), "{error:?}");
}

async fn a_server_without_an_address_is_waited_for(place: Place) {
    let office = office(place, None).await;
    let of = office.told(None, "please").await;
    assert_eq!(office.house.status(&of).await, "running");
}
