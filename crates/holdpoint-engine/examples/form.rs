//! A form with typed questions. The answers become a variable of the run and are read as a struct.

use std::collections::HashMap;

use holdpoint_engine::core::workflow::Form;
use holdpoint_engine::{Engine, Workflow};
use serde::{Deserialize, Serialize};

/// The answers of the form.
#[derive(Debug, Deserialize, Serialize, PartialEq)]
struct Trip {
    city: String,
    nights: u32,
    class: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(folder.path().join("holdpoint.db")).await?;
    let form = Form::new().text("city", "Which city?").number("nights", "How many nights?").choice(
        "class",
        "Which class?",
        &["economy", "business"],
    );
    engine.workflows().put(Workflow::builder("trip").node("ask", form).build()?).await?;

    let run = engine.runs().start("trip").await?;
    let interrupt = run.wait_for_interrupt().await?;
    // An answer that does not match the form is refused, and the form stays open.
    let refused = interrupt.answers(HashMap::from([("city", "Rome")])).by("alice").await;
    println!("refused: {}", refused.err().map(|error| error.to_string()).unwrap_or_default());

    let trip = Trip { city: "Rome".to_owned(), nights: 3, class: "economy".to_owned() };
    interrupt.answers(&trip).by("alice").await?;
    let done = run.wait().await?;
    let answers: Trip = done.variable("answers")?;
    println!("the run is {} with {answers:?}", done.status().as_str());
    engine.close().await;
    anyhow::ensure!(answers == trip);
    Ok(())
}
