//! Strings of definitions that may be secrets: plain text, or a reference to an environment variable or a file. They
//! are read when they are needed and never printed.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::definition::{BadTools, ToolMembers};

#[derive(Clone)]
pub(super) struct SecretRef {
    /// A text before the secret, such as `Bearer `.
    prefix: String,
    source: SecretSource,
}

#[derive(Clone)]
enum SecretSource {
    Text(String),
    Environment(String),
    File(PathBuf),
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretRef")
    }
}

impl SecretRef {
    /// Parses `"text"`, `{"env": "NAME"}` or `{"file": "PATH"}`, the last two with an optional `prefix`. The variable
    /// or file must exist already, so that a mistake is found before the first call.
    pub(super) fn parse(value: &Value, at: &str, base: Option<&Path>) -> Result<Self, BadTools> {
        let secret = match value {
            Value::String(text) => Self { prefix: String::new(), source: SecretSource::Text(text.clone()) },
            other => {
                let members = ToolMembers::of(other, at)?;
                members.reject_unknown(&["env", "file", "prefix"])?;
                let source = match (members.text("env")?, members.text("file")?) {
                    (Some(name), None) => SecretSource::Environment(name.to_owned()),
                    (None, Some(path)) => {
                        SecretSource::File(base.map_or_else(|| PathBuf::from(path), |base| base.join(path)))
                    }
                    _ => return Err(BadTools::new(at, "must be a string, {\"env\": …} or {\"file\": …}")),
                };
                Self { prefix: members.text("prefix")?.unwrap_or_default().to_owned(), source }
            }
        };
        secret.read().map_err(|why| BadTools::new(at, why))?;
        Ok(secret)
    }

    pub(super) fn read(&self) -> Result<String, String> {
        let text = match &self.source {
            SecretSource::Text(text) => text.clone(),
            SecretSource::Environment(name) => std::env::var(name).map_err(|_| {
                format!("the environment variable {name} of a secret is not set or is not UTF-8")
            })?,
            SecretSource::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("the secret in {} cannot be read: {error}", path.display()))?
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
        };
        Ok(format!("{}{text}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_is_read_from_its_reference_and_is_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        let parse = |value: Value| SecretRef::parse(&value, "tools[0].headers.X", Some(folder.path()));
        let found = parse(json!({"file": "token", "prefix": "Bearer "})).unwrap();
        assert_eq!(found.read().unwrap(), "Bearer s3cret");
        assert!(!format!("{found:?}").contains("s3cret"));
        assert_eq!(parse(json!("plain")).unwrap().read().unwrap(), "plain");
        assert_eq!(parse(json!({"env": "PATH"})).unwrap().read().unwrap(), std::env::var("PATH").unwrap());
        for wrong in [
            json!({"file": "elsewhere"}),
            json!({"env": "HOLDPOINT_SURELY_NOT_THERE"}),
            json!({"env": "PATH", "file": "token"}),
            json!({"env": "PATH", "more": 1}),
            json!(5),
        ] {
            assert!(parse(wrong.clone()).unwrap_err().field.starts_with("tools[0].headers.X"), "{wrong}");
        }
    }
}
