//! Where keys are, and keys while they are used. A key is read for every call, so that one that was changed counts from
//! then on, and it is never shown.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::BadModel;
use super::members::Members;

/// A text that nobody is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Where a key is to be found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyRef {
    /// A variable of the environment.
    Env(String),
    /// A file with nothing else in it.
    File(PathBuf),
}

const KEY_BYTES_MAX: u64 = 64 * 1024;

impl KeyRef {
    /// `{"env": "NAME"}` or `{"file": "PATH"}`, in a definition that is a file in `base`.
    pub(super) fn parse(value: &Value, path: &str, base: Option<&Path>) -> Result<Self, BadModel> {
        const FORM: &str =
            "must be {\"env\": \"NAME\"} or {\"file\": \"PATH\"}; a key itself has no place here";
        if !value.is_object() {
            return Err(BadModel::new(path, FORM));
        }
        let Some(base) = base else {
            return Err(BadModel::new(path, "is only accepted in the operator's own files"));
        };
        let mut members = Members::of(value, path)?;
        let (env, file) = (members.text("env")?, members.text("file")?);
        members.end()?;
        match (env, file) {
            (Some(name), None) if !name.contains(['=', '\0']) => Ok(Self::Env(name)),
            (None, Some(file)) => Ok(Self::File(base.join(file))),
            _ => Err(BadModel::new(path, FORM)),
        }
    }

    /// With the name of a file that is relative to a folder.
    pub(crate) fn in_folder(self, base: &Path) -> Self {
        match self {
            Self::Env(name) => Self::Env(name),
            Self::File(file) => Self::File(base.join(file)),
        }
    }

    /// The key as it is now. What is said instead may reach whoever sees the run, so that where it was looked for is
    /// told to the log alone.
    pub(crate) async fn read(&self) -> Result<Secret, &'static str> {
        let found = match self {
            Self::Env(name) => {
                std::env::var(name).map_err(|_| "the variable that should hold it is not set to a text")
            }
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.ok().and_then(Result::ok).ok_or("the file that should hold it cannot be read")
            }
        };
        let usable = found.and_then(|text| match text.trim() {
            "" => Err("it is empty"),
            key if key.chars().any(|c| c.is_control() || !c.is_ascii()) => {
                Err("it has characters that cannot be sent")
            }
            key => Ok(Secret::new(key)),
        });
        if let Err(why) = usable {
            tracing::warn!(place = ?self, why, "a key cannot be used");
        }
        usable
    }
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(KEY_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
