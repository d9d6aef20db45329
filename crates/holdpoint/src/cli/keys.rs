//! `holdpoint keys`: API keys as people see them.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint keys create --principal alice --roles approver
  holdpoint keys create --tenant acme --json
  holdpoint keys list
  holdpoint keys revoke KEYID";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a key and show it, once
    Create {
        /// Whose data the key reaches; a new tenant needs an administrator's key
        #[arg(long, value_name = "T")]
        tenant: Option<String>,
        /// Who acts with the key; stands beside every answer given with it
        #[arg(long, value_name = "P")]
        principal: Option<String>,
        /// Roles, separated by commas
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Vec<String>,
        /// What the key may do, separated by commas: manifest:read, manifest:write, runs:create, runs:read,
        /// runs:cancel, approvals:respond, keys:manage, tenants:manage. Without it, all but the last two
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        scopes: Vec<String>,
    },
    /// List the keys, without their secrets
    List,
    /// Revoke a key at once and for good
    Revoke {
        /// As `keys list` shows it; not the key itself
        #[arg(value_name = "KEYID")]
        key_id: String,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Create { tenant, principal, roles, scopes } => {
            let reply = client.post("/v1/keys", &request(tenant, principal, &roles, &scopes))?;
            output.show(&reply, |key| created(output, key));
        }
        Action::List => {
            let reply = client.get("/v1/keys")?;
            output.show(&reply, |page| list(output, page));
        }
        Action::Revoke { key_id } if key_id.starts_with("hp_") => {
            // The key itself is not repeated: what is on a screen is soon in a log.
            return Err(Failure::usage("this is a key; what is wanted is its id, which begins with key_")
                .hint("`holdpoint keys list` shows the ids"));
        }
        Action::Revoke { key_id } => {
            let reply = client.delete(&format!("/v1/keys/{}", encode(&key_id)))?;
            output.show(&reply, |_| format!("revoked {key_id}"));
        }
    }
    Ok(())
}

/// Only what was said: the server knows the defaults.
fn request(tenant: Option<String>, principal: Option<String>, roles: &[String], scopes: &[String]) -> Value {
    let mut body = Map::new();
    body.extend(tenant.map(|tenant| ("tenant".to_string(), json!(tenant))));
    body.extend(principal.map(|principal| ("principal".to_string(), json!(principal))));
    body.extend((!roles.is_empty()).then(|| ("roles".to_string(), json!(roles))));
    body.extend((!scopes.is_empty()).then(|| ("scopes".to_string(), json!(scopes))));
    Value::Object(body)
}

fn created(output: &Output, key: &Value) -> String {
    let facts =
        ["key", "keyId", "tenant", "principal", "roles", "scopes"].map(|name| (name, cell(&key[name])));
    format!(
        "{}\n\nKeep the key now: the server stores only its hash and cannot show it again.",
        output.facts(&facts)
    )
}

fn list(output: &Output, page: &Value) -> String {
    let row = |key: &Value| {
        let status = if key["revokedAt"].is_null() { "active" } else { "revoked" };
        let mut row: Vec<String> = ["keyId", "tenant", "principal"].map(|name| cell(&key[name])).into();
        row.extend([
            status.to_string(),
            age_cell(&key["createdAt"]),
            cell(&key["roles"]),
            cell(&key["scopes"]),
        ]);
        row
    };
    let rows: Vec<_> = page["keys"].as_array().into_iter().flatten().map(row).collect();
    output.table(&["KEYID", "TENANT", "PRINCIPAL", "STATUS", "AGE", "ROLES", "SCOPES"], &rows, "no keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_holds_only_what_was_said() {
        assert_eq!(request(None, None, &[], &[]), json!({}));
        let full = request(Some("t".into()), Some("p".into()), &["r".into()], &["s".into()]);
        assert_eq!(full, json!({"tenant": "t", "principal": "p", "roles": ["r"], "scopes": ["s"]}));
    }
}
