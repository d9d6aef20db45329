//! Creates a hold before an effect, and uses the grant of its approval once:
//! `cargo run -p holdpoint-client --example hold -- http://127.0.0.1:8484 KEY`

use holdpoint_client::api::grants::ConsumeGrant;
use holdpoint_client::api::holds::CreateHold;
use holdpoint_client::api::ids::{HoldStatus, StrictValue, digest};
use holdpoint_client::{Client, Error};
use serde_json::json;

/// Requests the approval to delete rows, and returns whether the caller may delete them.
pub async fn delete_rows(server: &str, key: &str) -> Result<bool, Error> {
    let client = Client::builder(server).key(key).build()?;
    let payload = json!({"table": "orders", "rows": 3});
    let hold = CreateHold {
        title: "Delete 3 rows?".to_owned(),
        data: Some(StrictValue(payload.clone())),
        timeout_ms: Some(3_600_000),
        ..CreateHold::default()
    };
    let hold = client.holds().create(&hold).await?;
    println!("waiting for an answer to {}", hold.hold_id);

    let hold = client.holds().wait(hold.hold_id.as_str()).await?;
    if hold.status != HoldStatus::Approved {
        return Ok(false);
    }
    // The server accepts one use of the grant, for the payload that was shown. It refuses a second use with 409.
    let Some(grant) = &hold.grant_id else { return Ok(false) };
    let used = client.grants().consume(grant, &ConsumeGrant { digest: digest(&payload) });
    match used.await {
        Ok(_) => Ok(true),
        Err(error) if error.status() == Some(409) => Ok(false),
        Err(error) => Err(error),
    }
}

#[tokio::main]
#[allow(dead_code)]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, key] = arguments.as_slice() else {
        eprintln!("usage: hold SERVER KEY");
        return Ok(());
    };
    println!("the rows may be deleted: {}", delete_rows(server, key).await?);
    Ok(())
}
