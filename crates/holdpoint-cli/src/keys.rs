//! `holdpoint keys`: creates, lists, rotates and revokes API keys.

use clap::{Args, Subcommand};
use holdpoint_api::keys::{CreateKey, Key, KeyCreated, RotateKey};
use jiff::Timestamp;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell};
use super::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint keys create --principal alice --roles approver --add-scopes approvals:respond
  holdpoint keys create --principal ci --scopes runs:create,runs:read --expires-in 30d
  holdpoint keys create --tenant acme --json
  holdpoint keys list
  holdpoint keys rotate KEYID --overlap 1d
  holdpoint keys revoke KEYID";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a key and show it, once
    Create(CreateArgs),
    /// List the keys, without their secrets
    List,
    /// Create the successor of a key with the same rights; links stay valid, and the old key expires after an overlap
    Rotate(RotateArgs),
    /// Revoke a key immediately and permanently
    Revoke {
        /// Id of the key, as shown by `keys list`; not the key itself
        #[arg(value_name = "KEYID")]
        key_id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Tenant of the key [default: your tenant]; another tenant requires the scope tenants:manage
    #[arg(long, value_name = "T")]
    tenant: Option<String>,
    /// Principal of the key; recorded with every answer
    #[arg(long, value_name = "P")]
    principal: Option<String>,
    /// Roles, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    roles: Option<Vec<String>>,
    /// Group of the principal; repeatable
    #[arg(long = "group", value_name = "G", value_delimiter = ',')]
    groups: Option<Vec<String>>,
    /// Scopes of the key, separated by commas: manifest:read, manifest:write, runs:create, runs:read,
    /// runs:cancel, artifacts:read, events:send, webhooks:manage, runs:prioritize, triggers:manage, approvals:respond,
    /// approvals:act-as, keys:manage, tenants:manage
    /// [default: all except the last six]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    scopes: Option<Vec<String>>,
    /// Scopes in addition to the default ones, such as approvals:respond
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "scopes")]
    add_scopes: Option<Vec<String>>,
    /// Lifetime of the key: a number and s, m, h, d or w [default: no limit]
    #[arg(long, value_name = "30d", value_parser = values::seconds)]
    expires_in: Option<u64>,
    /// Create a test key in a separate tenant
    #[arg(long)]
    test: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Id of the key, as shown by `keys list`; not the key itself
    #[arg(value_name = "KEYID")]
    key_id: String,
    /// Time until the old key expires: a number and s, m, h, d or w [default: 1d]
    #[arg(long, value_name = "1d", value_parser = values::seconds)]
    overlap: Option<u64>,
    /// Lifetime of the new key [default: the lifetime of the old key]
    #[arg(long, value_name = "30d", value_parser = values::seconds)]
    expires_in: Option<u64>,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Create(args) => {
            let body = CreateKey {
                tenant: args.tenant,
                principal: args.principal,
                roles: args.roles,
                groups: args.groups,
                scopes: args.scopes,
                add_scopes: args.add_scopes,
                expires_at: None,
                expires_in_seconds: args.expires_in,
                test: args.test.then_some(true),
            };
            output.show(&client.send(client.keys().create(&body))?, |key| describe_new(output, key));
        }
        Action::List => {
            output.show(&client.send(client.keys().list())?, |page| list(output, &page.keys));
        }
        Action::Rotate(RotateArgs { key_id, overlap, expires_in }) => {
            check_id(&key_id)?;
            let body =
                RotateKey { overlap_seconds: overlap, expires_at: None, expires_in_seconds: expires_in };
            output.show(&client.send(client.keys().rotate(&key_id, &body))?, |key| describe_new(output, key));
        }
        Action::Revoke { key_id } => {
            check_id(&key_id)?;
            output.show(&client.send(client.keys().revoke(&key_id))?, |()| format!("revoked {key_id}"));
        }
    }
    Ok(())
}

fn check_id(key_id: &str) -> Result<(), Failure> {
    if key_id.starts_with("hp_") {
        // The message does not repeat the key, because terminals are logged.
        return Err(Failure::usage("the argument is a key; use its id, which begins with key_")
            .hint("`holdpoint keys list` lists the ids"));
    }
    Ok(())
}

fn describe_new(output: &Output, created: &KeyCreated) -> String {
    let KeyCreated { stored: key, key: secret } = created;
    let fields = [
        ("key", cell(secret)),
        ("keyId", cell(&key.key_id)),
        ("lineage", cell(&key.lineage)),
        ("tenant", cell(&key.tenant)),
        ("principal", cell(&key.principal)),
        ("roles", cell(&key.roles)),
        ("groups", cell(&key.groups)),
        ("scopes", cell(&key.scopes)),
        ("expiresAt", cell(key.expires_at)),
    ];
    let mut parts = vec![output.fields(&fields), describe_scopes(&key.scopes)];
    if !key.scopes.iter().any(|scope| scope == "approvals:respond") {
        parts.push(
            "This key cannot answer interrupts. Create one that can with --add-scopes approvals:respond."
                .to_owned(),
        );
    }
    parts.push("Store the key now: the server keeps only its hash and cannot show it again.".to_owned());
    parts.join("\n\n")
}

/// The actions that each scope allows, as continuations of "This key may".
const SCOPE_TEXTS: [(&str, &str); 14] = [
    ("manifest:read", "read workflows and agents"),
    ("manifest:write", "register workflows and agents"),
    ("runs:create", "start and fork runs, and create holds"),
    ("runs:read", "read runs, their events and pending interrupts"),
    ("runs:cancel", "cancel, pause and resume runs"),
    (
        "runs:prioritize",
        "start runs and send messages with a priority above the normal one, ahead of all tenants",
    ),
    ("artifacts:read", "read artifacts"),
    ("approvals:respond", "answer interrupts and create links that answer"),
    ("approvals:act-as", "answer in the name of other principals"),
    ("events:send", "send events to waiting runs"),
    ("webhooks:manage", "manage webhooks"),
    ("triggers:manage", "manage triggers, which start runs at times and for events"),
    ("keys:manage", "create, rotate and revoke keys"),
    ("tenants:manage", "create keys of other tenants"),
];

fn describe_scopes(held: &[String]) -> String {
    let is_held = |scope: &str| held.iter().any(|held| held == scope);
    let lines: String = SCOPE_TEXTS
        .iter()
        .filter(|(scope, _)| is_held(scope))
        .map(|(_, words)| format!("\n  {words}"))
        .collect();
    if lines.is_empty() { "This key has no scopes.".to_owned() } else { format!("This key may:{lines}") }
}

fn status(key: &Key, now: Timestamp) -> &'static str {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at.0.0 <= now.as_millisecond() => "expired",
        (None, _) => "active",
    }
}

fn list(output: &Output, keys: &[Key]) -> String {
    let row = |key: &Key| {
        vec![
            cell(&key.key_id),
            cell(&key.tenant),
            cell(&key.principal),
            status(key, Timestamp::now()).to_owned(),
            age_since(key.created_at),
            cell(&key.roles),
            cell(&key.groups),
            cell(&key.scopes),
        ]
    };
    let titles = ["KEYID", "TENANT", "PRINCIPAL", "STATUS", "AGE", "ROLES", "GROUPS", "SCOPES"];
    output.table(&titles, &keys.iter().map(row).collect::<Vec<_>>(), "no keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(members: &serde_json::Value) -> KeyCreated {
        let mut key = json!({
            "key": "hp_1", "keyId": "key_1", "lineage": "key_1", "tenant": "t", "principal": "p", "roles": [],
            "groups": [], "scopes": [], "test": false, "createdAt": "2026-01-01T00:00:00Z",
        });
        key.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(key).unwrap()
    }

    #[test]
    fn a_new_key_is_shown_with_the_actions_of_its_scopes() {
        let described = |scope: &str| describe_new(&Output::json(), &key(&json!({"scopes": [scope]})));
        let starter = described("runs:create");
        assert!(starter.contains("This key may:\n  start and fork runs"), "{starter}");
        assert!(starter.contains("--add-scopes approvals:respond"), "{starter}");
        let approver = described("approvals:respond");
        assert!(approver.contains("answer interrupts") && !approver.contains("cannot answer"), "{approver}");
        assert_eq!(SCOPE_TEXTS.map(|(scope, _)| scope), holdpoint_api::keys::SCOPES);
    }

    #[test]
    fn a_key_is_active_until_it_is_revoked_or_expires() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        for (members, expected) in [
            (json!({}), "active"),
            (json!({"expiresAt": "2030-01-01T00:00:00.001Z"}), "active"),
            (json!({"expiresAt": "2030-01-01T00:00:00.000Z"}), "expired"),
            (json!({"expiresAt": "2029-01-01T00:00:00Z", "revokedAt": "2029-01-01T00:00:00Z"}), "revoked"),
        ] {
            assert_eq!(status(&key(&members).stored, now), expected, "{members}");
        }
    }
}
