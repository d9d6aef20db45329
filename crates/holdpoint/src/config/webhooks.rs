//! How webhooks are delivered, as an operator says it.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;
use holdpoint_engine::WebhookSettings;

use super::retention;

const HEADING: &str = "Webhooks";
/// An attempt must be over while its delivery is still one node's alone.
const LEASE_MIN: Duration = Duration::from_secs(6);

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// For development and tests: webhooks and callbacks may lead to this machine itself, also over http. Nothing else is
    /// relaxed. Whoever may register a webhook can then reach whatever listens here
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_ALLOW_PRIVATE_WEBHOOKS")]
    allow_private_webhooks: bool,
    /// How long nothing is sent to a subscriber that failed four times in a row: a number and s, m, h or d [default: 1h]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_COOLDOWN", value_name = "TIME", value_parser = retention::parse)]
    webhook_cooldown: Option<Duration>,
    /// How long a durable delivery is in the hands of one node alone; what a node had in hand when it died is sent by
    /// another after that. At least 6s [default: 30s]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_LEASE", value_name = "TIME", value_parser = retention::parse)]
    webhook_lease: Option<Duration>,
    /// How long it can be looked up what was delivered, and how attempts went [default: 7d]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_LOG_RETENTION", value_name = "TIME", value_parser = retention::parse)]
    webhook_log_retention: Option<Duration>,
    /// How long dead letters are kept and can be replayed [default: 30d]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_DEAD_LETTER_RETENTION", value_name = "TIME", value_parser = retention::parse)]
    webhook_dead_letter_retention: Option<Duration>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct WebhookFile {
    pub allow_private: Option<bool>,
    pub cooldown: Option<String>,
    pub lease: Option<String>,
    pub log_retention: Option<String>,
    pub dead_letter_retention: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebhookChoice {
    pub allow_private: bool,
    cooldown: Option<Duration>,
    lease: Option<Duration>,
    log_retention: Option<Duration>,
    dead_letter_retention: Option<Duration>,
}

impl WebhookArgs {
    pub(super) fn or(self, file: WebhookFile) -> anyhow::Result<WebhookChoice> {
        let lease = either(self.webhook_lease, file.lease, "webhook_lease")?;
        ensure!(
            lease.is_none_or(|lease| lease >= LEASE_MIN),
            "webhook_lease must be at least {}s: one attempt takes up to five",
            LEASE_MIN.as_secs()
        );
        let (log, dead) = (self.webhook_log_retention, self.webhook_dead_letter_retention);
        Ok(WebhookChoice {
            allow_private: self.allow_private_webhooks || file.allow_private.unwrap_or(false),
            cooldown: either(self.webhook_cooldown, file.cooldown, "webhook_cooldown")?,
            lease,
            log_retention: either(log, file.log_retention, "webhook_log_retention")?,
            dead_letter_retention: either(dead, file.dead_letter_retention, "webhook_dead_letter_retention")?,
        })
    }
}

/// What the flag says, or the file under this name.
fn either(flag: Option<Duration>, file: Option<String>, name: &str) -> anyhow::Result<Option<Duration>> {
    let file = file.as_deref().map(retention::parse).transpose().map_err(|why| anyhow!("{name}: {why}"))?;
    Ok(flag.or(file))
}

impl WebhookChoice {
    pub(crate) fn settings(&self) -> WebhookSettings {
        let default = WebhookSettings::default();
        WebhookSettings {
            cooldown: self.cooldown.unwrap_or(default.cooldown),
            lease: self.lease.unwrap_or(default.lease),
            keep_deliveries: self.log_retention.unwrap_or(default.keep_deliveries),
            keep_dead_letters: self.dead_letter_retention.unwrap_or(default.keep_dead_letters),
            callbacks: true,
            ..default
        }
    }

    /// What an operator should read in the log at every start.
    pub(crate) fn tell(&self) {
        if self.allow_private {
            tracing::warn!(
                "WEBHOOKS MAY REACH THIS MACHINE: --allow-private-webhooks lets webhooks and callbacks lead to loopback \
                 addresses, by http:// too. This is for development and tests; do not use it where others can \
                 register webhooks or start runs."
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> WebhookFile {
        WebhookFile {
            allow_private: Some(true),
            cooldown: Some("5m".to_owned()),
            lease: Some("10s".to_owned()),
            log_retention: Some("1d".to_owned()),
            dead_letter_retention: Some("60d".to_owned()),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_nothing_is_open_unless_somebody_opens_it() {
        let nothing = WebhookArgs::default().or(WebhookFile::default()).unwrap();
        assert_eq!(nothing, WebhookChoice::default());
        assert_eq!(nothing.settings().cooldown, Duration::from_secs(3600));
        assert!(nothing.settings().callbacks);
        let of_file = WebhookArgs::default().or(file()).unwrap();
        assert_eq!((of_file.allow_private, of_file.settings().cooldown), (true, Duration::from_secs(300)));
        let args = WebhookArgs { webhook_cooldown: Some(Duration::ZERO), ..WebhookArgs::default() };
        assert_eq!(args.or(file()).unwrap().settings().cooldown, Duration::ZERO);
        let odd = WebhookFile { cooldown: Some("soon".to_owned()), ..WebhookFile::default() };
        assert!(WebhookArgs::default().or(odd).unwrap_err().to_string().contains("webhook_cooldown"));
    }

    #[test]
    fn an_operator_says_how_long_deliveries_are_kept_and_held() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let kept = |settings: WebhookSettings| {
            (settings.keep_deliveries, settings.keep_dead_letters, settings.lease.as_secs())
        };
        let nothing = WebhookArgs::default().or(WebhookFile::default()).unwrap();
        assert_eq!(kept(nothing.settings()), (7 * DAY, 30 * DAY, 30));
        let of_file = WebhookArgs::default().or(file()).unwrap();
        assert_eq!(kept(of_file.settings()), (DAY, 60 * DAY, 10));
        let args = WebhookArgs {
            webhook_lease: Some(Duration::from_secs(6)),
            webhook_log_retention: Some(2 * DAY),
            webhook_dead_letter_retention: Some(Duration::ZERO),
            ..WebhookArgs::default()
        };
        assert_eq!(kept(args.or(file()).unwrap().settings()), (2 * DAY, Duration::ZERO, 6));
        let short = WebhookFile { lease: Some("5s".to_owned()), ..WebhookFile::default() };
        assert!(WebhookArgs::default().or(short).unwrap_err().to_string().contains("at least 6s"));
        let odd = WebhookFile { dead_letter_retention: Some("ever".to_owned()), ..WebhookFile::default() };
        let said = WebhookArgs::default().or(odd).unwrap_err().to_string();
        assert!(said.contains("webhook_dead_letter_retention"), "{said}");
    }
}
