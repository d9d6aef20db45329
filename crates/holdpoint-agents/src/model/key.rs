//! Parses references to API keys.

use std::path::Path;

use holdpoint_engine::extension::KeyRef;
use serde_json::Value;

use super::BadModel;
use super::members::ModelMembers;

/// Parses `{"env": "NAME"}` or `{"file": "PATH"}`. `base` is the folder of a definition that is a file of the
/// operator; without it, references to keys are rejected.
pub(super) fn parse_key(value: &Value, path: &str, base: Option<&Path>) -> Result<KeyRef, BadModel> {
    const FORM: &str =
        "must be {\"env\": \"NAME\"} or {\"file\": \"PATH\"}; a key in plain text is not accepted";
    if !value.is_object() {
        return Err(BadModel::new(path, FORM));
    }
    let Some(base) = base else {
        return Err(BadModel::new(path, "is only accepted in the operator's own files"));
    };
    let mut members = ModelMembers::of(value, path)?;
    let (env, file) = (members.text("env")?, members.text("file")?);
    members.reject_unknown()?;
    match (env, file) {
        (Some(name), None) if !name.contains(['=', '\0']) => Ok(KeyRef::Env(name)),
        (None, Some(file)) => Ok(KeyRef::File(base.join(file))),
        _ => Err(BadModel::new(path, FORM)),
    }
}
