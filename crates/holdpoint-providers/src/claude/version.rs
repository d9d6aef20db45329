//! Checks the version of the program before its first use and after each change of its file.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::super::{ProviderError, code};
use super::settings::ClaudeSettings;

/// The first version that can defer a call.
const FIRST: [u64; 3] = [2, 1, 89];
const QUERY_TIMEOUT: Duration = Duration::from_secs(15);

type Stamp = Option<(SystemTime, u64)>;

#[derive(Default)]
pub(super) struct VersionCheck(Mutex<Option<(Stamp, String)>>);

impl VersionCheck {
    pub(super) async fn check(&self, settings: &ClaudeSettings) -> Result<String, ProviderError> {
        let stamp = file_stamp(Path::new(&settings.binary));
        let mut known = self.0.lock().await;
        if let Some((of, version)) = known.as_ref()
            && *of == stamp
        {
            return Ok(version.clone());
        }
        let version = query_version(&settings.binary).await?;
        match &settings.version {
            Some(pinned) if *pinned != version => {
                let message =
                    format!("the agent's program is version {version:?}; the settings require {pinned:?}");
                return Err(ProviderError::permanent(code::VERSION, message));
            }
            None if parse_numbers(&version).is_none_or(|found| found < FIRST) => {
                let message = format!(
                    "the agent's program is version {version:?}, which cannot defer calls; install 2.1.89 or later"
                );
                return Err(ProviderError::permanent(code::VERSION, message));
            }
            Some(_) | None => {}
        }
        *known = Some((stamp, version.clone()));
        Ok(version)
    }
}

/// Returns the modification time and the size of the file. None for a program that is found with the search path.
fn file_stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

async fn query_version(binary: &str) -> Result<String, ProviderError> {
    let mut command = Command::new(binary);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let result = timeout(QUERY_TIMEOUT, command.output()).await;
    let output = result
        .map_err(|_| {
            ProviderError::transient(code::TIMEOUT, "the agent's program did not report its version in time")
        })?
        .map_err(|error| start_error(&error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version: String = text.split_whitespace().next().unwrap_or_default().chars().take(40).collect();
    Ok(version)
}

/// Returns the error without the path of the program.
pub(super) fn start_error(error: &std::io::Error) -> ProviderError {
    let message = format!("the agent's program cannot be started: {}", error.kind());
    ProviderError::permanent(code::MISCONFIGURED, message)
}

fn parse_numbers(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split(['.', '-']).map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(parse_numbers("2.1.325") > Some(FIRST));
        assert!(parse_numbers("2.1.9") < Some(FIRST));
        assert_eq!(parse_numbers("hello"), None);
    }
}
