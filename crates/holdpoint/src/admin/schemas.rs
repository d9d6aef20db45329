//! Keys, secrets and health as the OpenAPI document describes them.

use serde_json::{Value, json};

use super::keys::{LIFE_SECONDS_MAX, OVERLAP_SECONDS_DEFAULT, OVERLAP_SECONDS_MAX};
use crate::auth::SCOPES;

/// A word as keys are made of: tenant, principal, role, group.
const WORD: &str = r"^[^\s,\u0000-\u001f\u007f-\u009f]{1,128}$";

const PRINCIPAL: &str =
    "Stored in normalization form NFKC. Control and format characters and mixed scripts are refused.";

pub(crate) fn all() -> Value {
    let word = json!({"type": ["string", "null"], "pattern": WORD});
    let instant = json!({"$ref": "#/components/schemas/Instant"});
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let scopes = json!({"type": "array", "items": {"type": "string", "enum": SCOPES}});
    let key = json!({
        "keyId": {"type": "string"},
        "lineage": {
            "type": "string",
            "description": "The id of the first key in a chain of rotations. Links end with the last active key of their lineage.",
        },
        "tenant": {"type": "string"},
        "principal": {"type": "string", "description": "Who acts with the key."},
        "roles": strings,
        "groups": strings,
        "scopes": strings,
        "test": {"type": "boolean", "description": "For trying things out, in a tenant of its own."},
        "createdAt": instant, "expiresAt": instant, "revokedAt": instant,
    });
    let mut created = key.clone();
    created["key"] = json!({
        "type": "string", "description": "Shown once: not when the request is sent again under its Idempotency-Key.",
    });
    let words = json!({"type": ["array", "null"], "items": {"type": "string", "pattern": WORD}});
    let mut wanted = json!({
        "tenant": word, "principal": word,
        "roles": words, "groups": words,
        "scopes": scopes,
        "addScopes": scopes,
        "expiresAt": {"type": ["string", "null"], "format": "date-time"},
        "expiresInSeconds": {"type": ["integer", "null"], "minimum": 1, "maximum": LIFE_SECONDS_MAX},
        "test": {"type": ["boolean", "null"]},
    });
    for member in ["scopes", "addScopes"] {
        wanted[member]["type"] = json!(["array", "null"]);
    }
    wanted["principal"]["description"] = json!(PRINCIPAL);
    wanted["addScopes"]["description"] = json!("Added to the default scopes. Not together with scopes.");
    let always =
        ["keyId", "lineage", "tenant", "principal", "roles", "groups", "scopes", "test", "createdAt"];
    json!({
        "CreateKey": {"type": "object", "properties": wanted, "additionalProperties": false},
        "RotateKey": rotate_key(),
        "Key": {"type": "object", "required": always, "properties": key},
        "KeyCreated": {"type": "object", "required": always, "properties": created},
        "Keys": {
            "type": "object",
            "required": ["keys"],
            "properties": {"keys": {"type": "array", "items": {"$ref": "#/components/schemas/Key"}}},
        },
        "RotateSecrets": rotate_secrets(),
        "Secret": {
            "type": "object",
            "required": ["kid", "createdAt"],
            "properties": {"kid": {"type": "string"}, "createdAt": instant, "retiredAt": instant},
        },
        "Secrets": {
            "type": "object",
            "required": ["secrets"],
            "properties": {"secrets": {"type": "array", "items": {"$ref": "#/components/schemas/Secret"}}},
        },
        "Usage": usage(),
        "Health": health(),
    })
}

fn rotate_secrets() -> Value {
    let revoke = json!({
        "type": ["boolean", "null"], "description": "End every link that was signed before, at once.",
    });
    json!({"type": "object", "properties": {"revokeOld": revoke}, "additionalProperties": false})
}

fn rotate_key() -> Value {
    json!({
        "type": "object",
        "properties": {
            "overlapSeconds": {
                "type": ["integer", "null"], "minimum": 0, "maximum": OVERLAP_SECONDS_MAX, "default": OVERLAP_SECONDS_DEFAULT,
                "description": "Seconds for which the old key stays valid.",
            },
            "expiresAt": {"type": ["string", "null"], "format": "date-time"},
            "expiresInSeconds": {"type": ["integer", "null"], "minimum": 1, "maximum": LIFE_SECONDS_MAX},
        },
        "additionalProperties": false,
    })
}

fn usage() -> Value {
    let limit =
        json!({"type": ["integer", "null"], "minimum": 1, "description": "Null if there is no limit."});
    let counted = |what: &str| {
        json!({
            "type": "object", "required": ["used", "limit"], "description": what,
            "properties": {"used": {"type": "integer", "minimum": 0}, "limit": limit},
        })
    };
    let each = |what: &str| json!({"type": "object", "required": ["limit"], "description": what, "properties": {"limit": limit}});
    let properties = json!({
        "openRuns": counted("Runs that have not ended."),
        "storedBytes": counted("Bytes of the events of all runs."),
        "definitions": counted("Stored revisions of workflows and agents."),
        "deliveries": counted("Durable deliveries that are not over, counted up to the limit."),
        "streams": counted("Streams and long polls that are open at this node."),
        "familyRuns": each("Runs that one run starts, directly or through others."),
        "forkBytes": each("Bytes of the events of a run that is forked."),
    });
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn health() -> Value {
    json!({
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"type": "string", "enum": ["ok", "ready"]}},
    })
}
