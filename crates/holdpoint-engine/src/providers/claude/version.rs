//! Which version of the program it is: asked before it is first used, and again when its file has changed.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::super::{Trouble, code};
use super::settings::Settings;

/// The first that can put a call off.
const FIRST: [u64; 3] = [2, 1, 89];
const ASKED_WITHIN: Duration = Duration::from_secs(15);

type Stamp = Option<(SystemTime, u64)>;

#[derive(Default)]
pub(super) struct Version(Mutex<Option<(Stamp, String)>>);

impl Version {
    pub(super) async fn check(&self, settings: &Settings) -> Result<String, Trouble> {
        let stamp = stamp(Path::new(&settings.binary));
        let mut known = self.0.lock().await;
        if let Some((of, version)) = known.as_ref()
            && *of == stamp
        {
            return Ok(version.clone());
        }
        let version = ask(&settings.binary).await?;
        match &settings.version {
            Some(pinned) if *pinned != version => {
                let message = format!("the agent's program is version {version:?}; {pinned:?} is wanted");
                return Err(Trouble::lasting(code::VERSION, message));
            }
            None if numbers(&version).is_none_or(|found| found < FIRST) => {
                let message = format!("the agent's program is version {version:?}; it cannot put calls off");
                return Err(Trouble::lasting(code::VERSION, message));
            }
            Some(_) | None => {}
        }
        *known = Some((stamp, version.clone()));
        Ok(version)
    }
}

/// A program that is found by the search path has none.
fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

async fn ask(binary: &str) -> Result<String, Trouble> {
    let mut command = Command::new(binary);
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let asked = timeout(ASKED_WITHIN, command.output()).await;
    let output = asked
        .map_err(|_| Trouble::passing(code::TIMEOUT, "the agent's program does not say which version it is"))?
        .map_err(|error| not_started(&error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version: String = said.split_whitespace().next().unwrap_or_default().chars().take(40).collect();
    Ok(version)
}

/// Where it was looked for is told to nobody.
pub(super) fn not_started(error: &std::io::Error) -> Trouble {
    let message = format!("the agent's program cannot be started: {}", error.kind());
    Trouble::lasting(code::MISCONFIGURED, message)
}

fn numbers(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split(['.', '-']).map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("2.1.325") > Some(FIRST));
        assert!(numbers("2.1.9") < Some(FIRST));
        assert_eq!(numbers("hello"), None);
    }
}
