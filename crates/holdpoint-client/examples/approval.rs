//! Starts a run, waits for its interrupt, approves it and watches its events to the end:
//! `cargo run -p holdpoint-client --example approval -- http://127.0.0.1:8484 KEY`

use holdpoint_client::api::ErrorCode;
use holdpoint_client::api::ids::{Status, StrictValue};
use holdpoint_client::api::interrupts::ResolveInterrupt;
use holdpoint_client::api::runs::CreateRun;
use holdpoint_client::{Client, Error};
use serde_json::json;

/// Starts a run, approves it and returns its last status.
pub async fn approve(server: &str, key: &str) -> Result<Status, Error> {
    let client = Client::builder(server).key(key).build()?;

    // With this key, a second start for the same order returns the first run.
    let run = CreateRun { workflow_id: "sample-approval".to_owned(), ..CreateRun::default() };
    let created = client.runs().create(&run).idempotency_key("order-1742").await?;
    let run_id = created.run_id.as_str();

    // Returns when the run waits for an answer or has ended.
    let waiting = client.runs().wait(run_id).await?;
    let node = waiting.current_node_id.as_ref().map_or("review", |node| node.as_str());

    let answer = StrictValue(json!({"action": "accept"}));
    let answer = ResolveInterrupt { resume_value: answer, ..ResolveInterrupt::default() };
    match client.interrupts().resolve(run_id, node, &answer).await {
        Ok(resolved) => println!("answered; the run is {}", resolved.status.as_str()),
        Err(error) if error.error_code() == Some(ErrorCode::InterruptAlreadyResolved) => {
            println!("another approver has already answered");
        }
        Err(error) => return Err(error),
    }

    // The stream reconnects automatically and ends with the run.
    let mut events = client.runs().watch(run_id, &Default::default());
    while let Some(event) = events.next().await? {
        println!("{} {}", event.id.unwrap_or_default(), event.event);
    }
    Ok(client.runs().wait(run_id).await?.status)
}

#[tokio::main]
#[allow(dead_code)]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, key] = arguments.as_slice() else {
        eprintln!("usage: approval SERVER KEY");
        return Ok(());
    };
    println!("the run is {}", approve(server, key).await?.as_str());
    Ok(())
}
