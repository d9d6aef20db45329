//! `holdpoint secrets`: lists and rotates the secrets that sign links. The server never shows the secrets themselves.

use clap::Subcommand;
use holdpoint_api::admin::{RotateSecrets, Secret};

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint secrets list
  holdpoint secrets rotate
  holdpoint secrets rotate --revoke-old";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the secrets: names and ages
    List,
    /// Sign links with a new secret; older links stay valid
    Rotate {
        /// Invalidate all older links immediately, for example after a leak
        #[arg(long)]
        revoke_old: bool,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::List => {
            output.show(&client.send(client.link_secrets().list())?, |page| list(output, &page.secrets));
        }
        Action::Rotate { revoke_old } => {
            let body = RotateSecrets { revoke_old: revoke_old.then_some(true) };
            let rest = if revoke_old { "older links are no longer valid" } else { "older links stay valid" };
            output.show(&client.send(client.link_secrets().rotate(&body))?, |secret| {
                format!("links are now signed with {}; {rest}", clean(&secret.kid))
            });
        }
    }
    Ok(())
}

fn list(output: &Output, secrets: &[Secret]) -> String {
    let row = |secret: &Secret| {
        let status = if secret.retired_at.is_none() { "signs" } else { "verifies" };
        vec![
            cell(&secret.kid),
            status.to_owned(),
            age_since(secret.created_at),
            cell(secret.retired_at.map(age_since)),
        ]
    };
    let rows: Vec<_> = secrets.iter().map(row).collect();
    output.table(&["KID", "STATUS", "AGE", "RETIRED"], &rows, "no secrets; the first link creates one")
}
