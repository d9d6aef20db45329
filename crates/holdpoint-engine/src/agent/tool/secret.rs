//! Texts of definitions that may be somebody's secret: written out, or kept in the environment or a file. They are
//! read when they are needed, and nothing here prints them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::definition::{BadTools, Members};

#[derive(Clone)]
pub(super) struct Secret {
    /// Put in front of it: `Bearer ` and the like.
    prefix: String,
    source: Source,
}

#[derive(Clone)]
enum Source {
    Text(String),
    Environment(String),
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// `"text"`, `{"env": "NAME"}` or `{"file": "PATH"}`, the last two with a `prefix` if they need one. Whatever it
    /// names must be there already, so that a mistake is found before a call is.
    pub(super) fn parse(value: &Value, at: &str, base: Option<&Path>) -> Result<Self, BadTools> {
        let secret = match value {
            Value::String(text) => Self { prefix: String::new(), source: Source::Text(text.clone()) },
            other => {
                let members = Members::of(other, at)?;
                members.only(&["env", "file", "prefix"])?;
                let source = match (members.text("env")?, members.text("file")?) {
                    (Some(name), None) => Source::Environment(name.to_owned()),
                    (None, Some(path)) => {
                        Source::File(base.map_or_else(|| PathBuf::from(path), |base| base.join(path)))
                    }
                    _ => return Err(BadTools::new(at, "must be a text, {\"env\": …} or {\"file\": …}")),
                };
                Self { prefix: members.text("prefix")?.unwrap_or_default().to_owned(), source }
            }
        };
        secret.read().map_err(|why| BadTools::new(at, why))?;
        Ok(secret)
    }

    pub(super) fn read(&self) -> Result<String, String> {
        let text = match &self.source {
            Source::Text(text) => text.clone(),
            Source::Environment(name) => std::env::var(name)
                .map_err(|_| format!("the environment has no text in {name}, where a secret should be"))?,
            Source::File(path) => std::fs::read_to_string(path)
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
    fn a_secret_is_found_where_the_definition_says_and_is_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "s3cret\n").unwrap();
        let parse = |value: Value| Secret::parse(&value, "tools[0].headers.X", Some(folder.path()));
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
