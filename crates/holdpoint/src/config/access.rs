//! The bootstrap key, and the limit of invalid credentials from one address.

use std::num::NonZeroU32;

use anyhow::bail;
use clap::Args;

use crate::auth::FailureLimit;

/// Minimum length of a bootstrap key: shorter keys can be guessed.
const BOOTSTRAP_KEY_CHARS_MIN: usize = 16;

#[derive(Clone, Debug, Args)]
pub(crate) struct AccessArgs {
    /// API key with all scopes of the tenant `default`, created at start. A key that begins with hp_test_ is a test key.
    /// At least 16 characters
    #[arg(long, env = "HOLDPOINT_BOOTSTRAP_KEY", value_name = "KEY", hide_env_values = true)]
    bootstrap_key: Option<String>,
    /// Invalid credentials (API keys, sessions, sign-in links) that one address may send at once and per minute; more
    /// get 429. Raise it behind a proxy that does not limit by client; 0 means no limit
    #[arg(long, env = "HOLDPOINT_AUTH_FAILURE_LIMIT", value_name = "N", default_value_t = FailureLimit::PER_MINUTE_DEFAULT)]
    auth_failure_limit: u32,
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
    pub(super) fn into_settings(self) -> anyhow::Result<AccessSettings> {
        if let Some(key) = &self.bootstrap_key {
            check_key(key)?;
        }
        let auth_failure_limit = NonZeroU32::new(self.auth_failure_limit);
        Ok(AccessSettings { bootstrap_key: self.bootstrap_key, auth_failure_limit })
    }
}

fn check_key(key: &str) -> anyhow::Result<()> {
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        bail!("--bootstrap-key: must be printable ASCII without spaces");
    }
    if key.len() < BOOTSTRAP_KEY_CHARS_MIN {
        bail!(
            "--bootstrap-key: must have at least {BOOTSTRAP_KEY_CHARS_MIN} characters, so that it cannot be guessed; \
             create one with: echo hp_$(head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \\n')"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_key(key: Option<&str>) -> anyhow::Result<Option<String>> {
        let args = AccessArgs { bootstrap_key: key.map(str::to_owned), auth_failure_limit: 0 };
        Ok(args.into_settings()?.bootstrap_key)
    }

    #[test]
    fn a_bootstrap_key_must_fit_into_a_header_and_be_hard_to_guess() {
        assert_eq!(load_key(None).unwrap(), None);
        assert_eq!(load_key(Some("0123456789abcdef")).unwrap().unwrap(), "0123456789abcdef");
        for short in ["", "a", "0123456789abcde"] {
            let error = load_key(Some(short)).unwrap_err().to_string();
            assert!(error.contains("16 characters") && error.contains("/dev/urandom"), "{error}");
            assert!(short.is_empty() || !error.contains(&format!("{short} ")), "{error}");
        }
        assert!(load_key(Some("two words with spaces")).is_err());
    }
}
