//! The first key of a server, and how many credentials that are not valid it takes from one address.

use std::num::NonZeroU32;

use anyhow::bail;
use clap::Args;

use crate::auth::FailureLimit;

/// Shorter keys can be guessed.
const BOOTSTRAP_KEY_CHARS_MIN: usize = 16;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AccessArgs {
    /// Makes this string an API key with all scopes of the tenant `default`; one that begins with hp_test_ is a test key.
    /// At least 16 characters
    #[arg(long, env = "HOLDPOINT_BOOTSTRAP_KEY", value_name = "KEY", hide_env_values = true)]
    bootstrap_key: Option<String>,
    /// Credentials that are not valid (API keys, sessions, sign-in links) that one address may send at once and per
    /// minute; more get 429. Raise it behind a proxy that does not limit by client; 0 means no limit [default: 100]
    #[arg(long, env = "HOLDPOINT_AUTH_FAILURE_LIMIT", value_name = "N")]
    auth_failure_limit: Option<u32>,
}

/// The same settings in the file.
#[derive(Debug, Default)]
pub(super) struct AccessFile {
    pub bootstrap_key: Option<String>,
    pub auth_failure_limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessSettings {
    pub bootstrap_key: Option<String>,
    /// Failed authentications per minute and address; None for any number.
    pub auth_failure_limit: Option<NonZeroU32>,
}

impl Default for AccessSettings {
    fn default() -> Self {
        let auth_failure_limit = NonZeroU32::new(FailureLimit::PER_MINUTE_DEFAULT);
        Self { bootstrap_key: None, auth_failure_limit }
    }
}

impl AccessArgs {
    pub(super) fn or(self, file: AccessFile) -> anyhow::Result<AccessSettings> {
        let bootstrap_key = self.bootstrap_key.or(file.bootstrap_key);
        if let Some(key) = &bootstrap_key {
            check_key(key)?;
        }
        let limit = self.auth_failure_limit.or(file.auth_failure_limit);
        let limit = limit.unwrap_or(FailureLimit::PER_MINUTE_DEFAULT);
        Ok(AccessSettings { bootstrap_key, auth_failure_limit: NonZeroU32::new(limit) })
    }
}

fn check_key(key: &str) -> anyhow::Result<()> {
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        bail!("--bootstrap-key: must be printable ASCII without spaces");
    }
    if key.len() < BOOTSTRAP_KEY_CHARS_MIN {
        bail!(
            "--bootstrap-key: must have at least {BOOTSTRAP_KEY_CHARS_MIN} characters, so that it cannot be guessed; \
             make one with: echo hp_$(head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \\n')"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(flag: Option<&str>, file: Option<&str>) -> anyhow::Result<Option<String>> {
        let args = AccessArgs { bootstrap_key: flag.map(str::to_owned), ..AccessArgs::default() };
        let file = AccessFile { bootstrap_key: file.map(str::to_owned), ..AccessFile::default() };
        Ok(args.or(file)?.bootstrap_key)
    }

    #[test]
    fn a_bootstrap_key_must_fit_into_a_header_and_be_hard_to_guess() {
        assert_eq!(settled(None, None).unwrap(), None);
        assert_eq!(settled(Some("0123456789abcdef"), Some("x")).unwrap().unwrap(), "0123456789abcdef");
        for short in ["", "a", "0123456789abcde"] {
            for error in [settled(Some(short), None), settled(None, Some(short))] {
                let error = error.unwrap_err().to_string();
                assert!(error.contains("16 characters") && error.contains("/dev/urandom"), "{error}");
                assert!(short.is_empty() || !error.contains(&format!("{short} ")), "{error}");
            }
        }
        assert!(settled(Some("two words with spaces"), None).is_err());
    }

    #[test]
    fn zero_failures_means_no_limit() {
        let limit = |flag, file| {
            let args = AccessArgs { auth_failure_limit: flag, ..AccessArgs::default() };
            let file = AccessFile { auth_failure_limit: file, ..AccessFile::default() };
            args.or(file).unwrap().auth_failure_limit.map(NonZeroU32::get)
        };
        assert_eq!(limit(None, None), Some(100));
        assert_eq!(limit(None, Some(7)), Some(7));
        assert_eq!(limit(Some(0), Some(7)), None);
    }
}
