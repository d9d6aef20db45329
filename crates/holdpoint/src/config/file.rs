//! The settings file. Its values are defaults of the flags with the same names, so that flags and variables win.

use std::error::Error as _;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use toml::Value;

/// The table of quotas: `[quotas] streams` is the flag `--quota-streams`.
pub(crate) const QUOTAS: &str = "quotas";

/// Returns the command with the values of the file as defaults of its flags.
pub(super) fn as_defaults(mut command: Command, path: &Path) -> anyhow::Result<Command> {
    for (key, value) in read(path)? {
        let (prefix, settings) = match value {
            Value::Table(quotas) if key == QUOTAS => ("quota_", quotas),
            value => ("", toml::Table::from_iter([(key, value)])),
        };
        for (name, value) in settings {
            command = set(command, &format!("{prefix}{name}"), value)
                .with_context(|| format!("{} is not a valid configuration", path.display()))?;
        }
    }
    Ok(command)
}

/// Explains why a value of the file is not valid. The value itself is not shown: it may be a secret.
pub(super) fn explain(path: &Path, error: &clap::Error) -> anyhow::Error {
    let key = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => {
            flag.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default().replace('-', "_")
        }
        _ => "a setting".to_owned(),
    };
    let why =
        error.source().map_or_else(|| "is not a value that the flag accepts".to_owned(), ToString::to_string);
    anyhow!("{} is not a valid configuration: {key}: {why}", path.display())
}

fn read(path: &Path) -> anyhow::Result<toml::Table> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Only the message of the error: the error itself also shows the line, which may have a key or a password.
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        anyhow!("{} is not a valid configuration: line {line}: {}", path.display(), error.message())
    })
}

fn set(command: Command, key: &str, value: Value) -> anyhow::Result<Command> {
    let is_known = key != "config" && command.get_arguments().any(|arg| arg.get_id() == key);
    ensure!(is_known, "unknown setting {key}; see docs/reference/settings.md");
    // clap does not check the number of default values.
    let takes_list = |arg: &Arg| arg.get_id() == key && matches!(arg.get_action(), ArgAction::Append);
    let texts = match value {
        Value::Array(items) if command.get_arguments().any(takes_list) => {
            items.into_iter().map(text).collect()
        }
        value => text(value).map(|text| vec![text]),
    };
    let texts = texts
        .ok_or_else(|| anyhow!("{key}: must be a string, a number, true or false; lists of strings are for flags that can be repeated"))?;
    Ok(command.mut_arg(key, |arg| arg.default_values(texts)))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}
