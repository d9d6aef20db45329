//! Embeds the engine: registers a custom node, starts a run, answers its interrupt and prints the result.

use std::collections::BTreeMap;

use holdpoint_engine::core::{
    Answer, Command, InterruptRequest, Kind, Owner, Principal, RunRef, StartRequest, TenantId, WorkflowId,
};
use holdpoint_engine::{EffectContext, Engine, Location, Node, Options, Outputs, Stop};
use serde_json::{Map, json};

/// Charges a card after an approval.
struct Charge;

impl Node for Charge {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let quote = context.step("quote", || async { Ok(json!({"amount": 120})) }).await?;
        let request = json!({"customKind": "charge", "payload": quote});
        let answer = context.interrupt(InterruptRequest::new(Kind::Custom, request))?;
        if answer != json!("yes") {
            return Err(Stop::failed("declined", "the charge was declined"));
        }
        let receipt = context.step("charge", || async { Ok(json!("receipt-1")) }).await?;
        Ok(Map::from_iter([("receipt".to_owned(), receipt)]))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    let engine = Engine::open(Options::new(location).node("acme.charge", Charge)).await?;
    let tenant = TenantId::parse("default")?;
    let definition = json!({
        "id": "checkout", "name": "Checkout", "version": "1", "triggers": [], "variables": [], "metadata": {},
        "settings": {}, "edges": [], "nodes": [{"id": "charge", "typeId": "acme.charge", "name": "Charge",
            "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}]
    });
    engine.workflows().register(&tenant, definition).await?;

    let owner = Owner { tenant: tenant.clone(), principal: "shop".to_owned() };
    let run = engine.runs().create(&WorkflowId::parse("checkout")?, StartRequest::new(owner)).await?;
    let of = RunRef { tenant, run: run.id.clone() };
    let mut worker = engine.worker();
    worker.drain().await?;
    println!("the run is {}", engine.runs().get(&of).await?.status().as_str());

    let waiting = engine.runs().get(&of).await?;
    let interrupt = waiting.waiting_on().ok_or_else(|| anyhow::anyhow!("the run does not wait"))?.id;
    let by = Principal::named("alice");
    let answers = BTreeMap::from([(interrupt, Answer::new(json!("yes"), by))]);
    engine.runs().execute(&of, &Command::Resolve { answers }).await?;
    worker.drain().await?;
    let done = engine.runs().get(&of).await?;
    println!("the run is {} with {}", done.status().as_str(), done.variables);
    anyhow::ensure!(done.variables["receipt"] == json!("receipt-1"));
    Ok(())
}
