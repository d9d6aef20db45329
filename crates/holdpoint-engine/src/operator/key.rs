//! References to API keys, and the keys themselves. A key is read for every call, so that a changed key takes effect at
//! once. Keys are never printed.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The location of a key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyRef {
    /// The name of an environment variable.
    Env(String),
    /// The path of a file that contains only the key.
    File(PathBuf),
}

const KEY_BYTES_MAX: u64 = 64 * 1024;

impl KeyRef {
    /// Resolves the path of a file relative to a folder.
    pub fn in_folder(self, base: &Path) -> Self {
        match self {
            Self::Env(name) => Self::Env(name),
            Self::File(file) => Self::File(base.join(file)),
        }
    }

    /// Reads the current key. Readers of the run can see the error, so the location of the key is written only to the
    /// log.
    pub async fn read(&self) -> Result<SecretText, &'static str> {
        let found = match self {
            Self::Env(name) => {
                std::env::var(name).map_err(|_| "its environment variable is not set or is not UTF-8")
            }
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.ok().and_then(Result::ok).ok_or("its file cannot be read")
            }
        };
        let usable = found.and_then(|text| match text.trim() {
            "" => Err("it is empty"),
            key if key.chars().any(|c| c.is_control() || !c.is_ascii()) => {
                Err("it has characters that are not allowed in a header")
            }
            key => Ok(SecretText::new(key)),
        });
        if let Err(why) = usable {
            tracing::warn!(place = ?self, why, "an API key cannot be used");
        }
        usable
    }
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(KEY_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
