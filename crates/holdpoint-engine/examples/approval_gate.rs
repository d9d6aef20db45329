//! An approval before a payment. The payment is code of this program. A recorded payment is not repeated after a crash.

use holdpoint_engine::core::workflow::{Approval, Input};
use holdpoint_engine::{EffectContext, Engine, Node, Options, Outputs, Stop, Workflow};
use serde_json::json;

/// Charges a card.
struct Charge;

impl Node for Charge {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        // A recorded step is not executed again.
        let receipt = context.step("charge", || async { Ok(json!("receipt-1")) }).await?;
        Ok(Outputs::from_iter([("receipt".to_owned(), receipt)]))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let options = Options::from(folder.path().join("holdpoint.db")).node("acme.charge", Charge);
    let engine = Engine::open(options).await?;
    let review = Approval::new("Charge the card?").show(Input::variable("amount")).approvers(["alice"]);
    let checkout =
        Workflow::builder("checkout").node("review", review).then("charge", "acme.charge").build()?;
    engine.workflows().put(checkout).await?;

    let run = engine.runs().start("checkout").input("amount", 120).by("shop").await?;
    let interrupt = run.wait_for_interrupt().await?;
    println!("alice decides about {}", interrupt.interrupt().data["artifactData"]);
    interrupt.accept().by("alice").await?;

    let done = run.wait().await?;
    println!("the run is {} with {}", done.status().as_str(), done.variable::<String>("receipt")?);
    engine.close().await;
    anyhow::ensure!(done.is_completed());
    Ok(())
}
