//! Two of three people must approve, and the requester cannot approve its own request.

use std::time::Duration;

use holdpoint_engine::core::workflow::Approval;
use holdpoint_engine::{Engine, Workflow};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(folder.path().join("holdpoint.db")).await?;
    let release = Approval::new("Release version 2?")
        .approvers(["alice", "bob", "carol"])
        .required(2)
        .not_by_requester()
        .timeout(Duration::from_secs(24 * 3600));
    engine.workflows().put(Workflow::builder("release").node("vote", release).build()?).await?;

    let run = engine.runs().start("release").by("alice").await?;
    let interrupt = run.wait_for_interrupt().await?;
    for name in ["alice", "bob", "mallory", "carol"] {
        match interrupt.accept().by(name).await {
            Ok(state) => println!("{name} approved; the run is {}", state.status().as_str()),
            Err(refused) => println!("{name} was refused: {refused}"),
        }
    }
    let done = run.wait().await?;
    engine.close().await;
    anyhow::ensure!(done.is_completed());
    Ok(())
}
