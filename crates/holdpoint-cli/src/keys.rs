//! `holdpoint keys`: API keys as people see them.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell};
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
    Create(Create),
    /// List the keys, without their secrets
    List,
    /// Create the successor of a key with the same rights; links go on, and the old key ends after an overlap
    Rotate(Rotate),
    /// Revoke a key at once and for good
    Revoke {
        /// As `keys list` shows it; not the key itself
        #[arg(value_name = "KEYID")]
        key_id: String,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct Create {
    /// Whose data the key reaches; a new tenant needs an administrator's key
    #[arg(long, value_name = "T")]
    tenant: Option<String>,
    /// Who acts with the key; stands beside every answer given with it
    #[arg(long, value_name = "P")]
    principal: Option<String>,
    /// Roles, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    roles: Vec<String>,
    /// A group that who acts with the key belongs to; give it several times for several
    #[arg(long = "group", value_name = "G", value_delimiter = ',')]
    groups: Vec<String>,
    /// What the key may do, separated by commas: manifest:read, manifest:write, runs:create, runs:read,
    /// runs:cancel, artifacts:read, events:send, webhooks:manage, approvals:respond, approvals:act-as, keys:manage,
    /// tenants:manage.
    /// Without it, all but the last four
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    scopes: Vec<String>,
    /// Scopes to add to the default ones, such as approvals:respond
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "scopes")]
    add_scopes: Vec<String>,
    /// How long the key is good for: a number and s, m, h, d or w. Without it, until it is revoked
    #[arg(long, value_name = "30d", value_parser = values::seconds)]
    expires_in: Option<u64>,
    /// A key for trying things out, in a tenant that has nothing else
    #[arg(long)]
    test: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// As `keys list` shows it; not the key itself
    #[arg(value_name = "KEYID")]
    key_id: String,
    /// Time until the old key ends: a number and s, m, h, d or w. Default: a day
    #[arg(long, value_name = "1d", value_parser = values::seconds)]
    overlap: Option<u64>,
    /// Lifetime of the new key. Default: the lifetime of the old key
    #[arg(long, value_name = "30d", value_parser = values::seconds)]
    expires_in: Option<u64>,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Create(wanted) => {
            let reply = client.post("/v1/keys", &request(wanted))?;
            output.show(&reply, |key| created(output, key));
        }
        Action::List => {
            let reply = client.get("/v1/keys")?;
            output.show(&reply, |page| list(output, page));
        }
        Action::Rotate(wanted) => {
            check_id(&wanted.key_id)?;
            let body = json!({"overlapSeconds": wanted.overlap, "expiresInSeconds": wanted.expires_in});
            let reply = client.post(&format!("/v1/keys/{}:rotate", encode(&wanted.key_id)), &body)?;
            output.show(&reply, |key| created(output, key));
        }
        Action::Revoke { key_id } => {
            check_id(&key_id)?;
            let reply = client.delete(&format!("/v1/keys/{}", encode(&key_id)))?;
            output.show(&reply, |_| format!("revoked {key_id}"));
        }
    }
    Ok(())
}

fn check_id(key_id: &str) -> Result<(), Failure> {
    if key_id.starts_with("hp_") {
        // The key itself is not repeated: what is on a screen is soon in a log.
        return Err(Failure::usage("this is a key; what is wanted is its id, which begins with key_")
            .hint("`holdpoint keys list` shows the ids"));
    }
    Ok(())
}

/// Only what was said: the server knows the defaults.
fn request(wanted: Create) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_string(), value)));
    };
    put("tenant", wanted.tenant.map(Value::String));
    put("principal", wanted.principal.map(Value::String));
    put("roles", (!wanted.roles.is_empty()).then(|| json!(wanted.roles)));
    put("groups", (!wanted.groups.is_empty()).then(|| json!(wanted.groups)));
    put("scopes", (!wanted.scopes.is_empty()).then(|| json!(wanted.scopes)));
    put("addScopes", (!wanted.add_scopes.is_empty()).then(|| json!(wanted.add_scopes)));
    put("expiresInSeconds", wanted.expires_in.map(|seconds| json!(seconds)));
    put("test", wanted.test.then_some(Value::Bool(true)));
    Value::Object(body)
}

fn created(output: &Output, key: &Value) -> String {
    let names = ["key", "keyId", "lineage", "tenant", "principal", "roles", "groups", "scopes", "expiresAt"];
    let there = names.into_iter().filter(|name| !key[*name].is_null());
    let facts: Vec<_> = there.map(|name| (name, cell(&key[name]))).collect();
    let held: Vec<&str> = key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut parts = vec![output.facts(&facts), describe_scopes(&held)];
    if !held.contains(&"approvals:respond") {
        parts.push(
            "It may not answer interrupts. To create a key that may, use --add-scopes approvals:respond."
                .to_owned(),
        );
    }
    parts.push("Keep the key now: the server stores only its hash and cannot show it again.".to_owned());
    parts.join("\n\n")
}

/// The actions that each scope allows, to complete "This key may".
const WORDS: [(&str, &str); 12] = [
    ("manifest:read", "read workflows and agents"),
    ("manifest:write", "register workflows and agents"),
    ("runs:create", "start and fork runs and make holds"),
    ("runs:read", "read runs, their events and what waits"),
    ("runs:cancel", "cancel, pause and resume runs"),
    ("artifacts:read", "read artifacts"),
    ("approvals:respond", "answer interrupts and make links that answer"),
    ("approvals:act-as", "answer in the names of others"),
    ("events:send", "send events to waiting runs"),
    ("webhooks:manage", "manage webhooks"),
    ("keys:manage", "create, rotate and revoke keys"),
    ("tenants:manage", "create keys of other tenants"),
];

fn describe_scopes(held: &[&str]) -> String {
    let said = WORDS.iter().filter(|(scope, _)| held.contains(scope)).map(|(_, words)| format!("  {words}"));
    let lines: Vec<String> = said.collect();
    if lines.is_empty() {
        "This key has no scopes.".to_owned()
    } else {
        format!("This key may:\n{}", lines.join("\n"))
    }
}

fn status(key: &Value, now: &Timestamp) -> &'static str {
    let expiry = key["expiresAt"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match (key["revokedAt"].is_null(), expiry) {
        (false, _) => "revoked",
        (true, Some(at)) if at <= *now => "expired",
        (true, _) => "active",
    }
}

fn list(output: &Output, page: &Value) -> String {
    let row = |key: &Value| {
        let status = status(key, &Timestamp::now());
        let mut row: Vec<String> = ["keyId", "tenant", "principal"].map(|name| cell(&key[name])).into();
        row.extend([
            status.to_string(),
            age_cell(&key["createdAt"]),
            cell(&key["roles"]),
            cell(&key["groups"]),
            cell(&key["scopes"]),
        ]);
        row
    };
    let rows: Vec<_> = page["keys"].as_array().into_iter().flatten().map(row).collect();
    let titles = ["KEYID", "TENANT", "PRINCIPAL", "STATUS", "AGE", "ROLES", "GROUPS", "SCOPES"];
    output.table(&titles, &rows, "no keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_holds_only_what_was_said() {
        assert_eq!(request(Create::default()), json!({}));
        let full = Create {
            tenant: Some("t".into()),
            principal: Some("p".into()),
            roles: vec!["r".into()],
            groups: vec!["g".into()],
            scopes: vec!["s".into()],
            add_scopes: vec!["a".into()],
            expires_in: Some(60),
            test: true,
        };
        let body = json!({
            "tenant": "t", "principal": "p", "roles": ["r"], "groups": ["g"], "scopes": ["s"], "addScopes": ["a"],
            "expiresInSeconds": 60, "test": true,
        });
        assert_eq!(request(full), body);
    }

    #[test]
    fn a_new_key_is_shown_with_what_it_may_do() {
        let key = |scopes: Value| created(&Output::new(true), &json!({"key": "hp_1", "scopes": scopes}));
        let starter = key(json!(["runs:create"]));
        assert!(starter.contains("This key may:\n  start and fork runs"), "{starter}");
        assert!(starter.contains("--add-scopes approvals:respond"), "{starter}");
        let approver = key(json!(["approvals:respond"]));
        assert!(approver.contains("answer interrupts") && !approver.contains("may not answer"), "{approver}");
        let said: Vec<&str> = WORDS.iter().map(|(scope, _)| *scope).collect();
        assert_eq!(said, holdpoint_api::keys::SCOPES);
    }

    #[test]
    fn a_key_is_active_until_it_is_revoked_or_expires() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        for (key, expected) in [
            (json!({}), "active"),
            (json!({"expiresAt": "2030-01-01T00:00:00.001Z"}), "active"),
            (json!({"expiresAt": "2030-01-01T00:00:00.000Z"}), "expired"),
            (json!({"expiresAt": "2029-01-01T00:00:00.000Z", "revokedAt": "x"}), "revoked"),
        ] {
            assert_eq!(status(&key, &now), expected, "{key}");
        }
    }
}
