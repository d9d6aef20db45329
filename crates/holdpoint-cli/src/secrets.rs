//! `holdpoint secrets`: what links are signed with. The secrets themselves never leave the server.

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_cell, cell, clean};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint secrets list
  holdpoint secrets rotate
  holdpoint secrets rotate --revoke-old";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the secrets: names and ages
    List,
    /// Sign links with a new secret; links that are out stay good
    Rotate {
        /// End all links that are out, at once: for when a secret or a link has got into wrong hands
        #[arg(long)]
        revoke_old: bool,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::List => {
            let reply = client.get("/v1/secrets")?;
            output.show(&reply, |page| list(output, page));
        }
        Action::Rotate { revoke_old } => {
            let body = if revoke_old { json!({"revokeOld": true}) } else { json!({}) };
            let reply = client.post("/v1/secrets:rotate", &body)?;
            output.show(&reply, |secret| {
                let kid = clean(secret["kid"].as_str().unwrap_or_default());
                let rest =
                    if revoke_old { "no older link is good any more" } else { "older links stay good" };
                format!("links are now signed with {kid}; {rest}")
            });
        }
    }
    Ok(())
}

fn list(output: &Output, page: &Value) -> String {
    let row = |secret: &Value| {
        let status = if secret["retiredAt"].is_null() { "signs" } else { "verifies" };
        vec![
            cell(&secret["kid"]),
            status.to_string(),
            age_cell(&secret["createdAt"]),
            age_cell(&secret["retiredAt"]),
        ]
    };
    let rows: Vec<_> = page["secrets"].as_array().into_iter().flatten().map(row).collect();
    output.table(&["KID", "STATUS", "AGE", "RETIRED"], &rows, "no secrets yet: the first link makes one")
}
