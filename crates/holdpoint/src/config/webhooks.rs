//! Settings of webhook deliveries.

use std::time::Duration;

use clap::Args;
use holdpoint_engine::WebhookSettings;

use super::retention;

const HEADING: &str = "Webhooks";
/// Minimum lease: an attempt must end before another node may claim the delivery.
const LEASE_MIN: Duration = Duration::from_secs(6);

#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookArgs {
    /// For development and tests: webhooks and callbacks may lead to this machine itself, also over http. No other rule
    /// is relaxed. Any caller that may register a webhook can then reach local services
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_ALLOW_PRIVATE_WEBHOOKS")]
    pub allow_private_webhooks: bool,
    /// Time without deliveries to a subscriber after four failures in a row: a number and s, m, h, d or w
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_COOLDOWN", value_name = "TIME", value_parser = retention::parse, default_value = "1h")]
    webhook_cooldown: Duration,
    /// Time for which a durable delivery is leased to one node; then another node may send it. At least 6s
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_LEASE", value_name = "TIME", value_parser = parse_lease, default_value = "30s")]
    webhook_lease: Duration,
    /// Time for which deliveries and their attempts are stored
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_LOG_RETENTION", value_name = "TIME", value_parser = retention::parse, default_value = "7d")]
    webhook_log_retention: Duration,
    /// Time for which dead letters are stored and can be replayed
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_DEAD_LETTER_RETENTION", value_name = "TIME", value_parser = retention::parse, default_value = "30d")]
    webhook_dead_letter_retention: Duration,
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = retention::parse(text)?;
    if lease < LEASE_MIN {
        return Err(format!("must be at least {}s: one attempt takes up to 5s", LEASE_MIN.as_secs()));
    }
    Ok(lease)
}

impl WebhookArgs {
    pub(crate) fn settings(&self) -> WebhookSettings {
        WebhookSettings {
            cooldown: self.webhook_cooldown,
            lease: self.webhook_lease,
            keep_deliveries: self.webhook_log_retention,
            keep_dead_letters: self.webhook_dead_letter_retention,
            callbacks: true,
            ..WebhookSettings::default()
        }
    }

    /// Logs a warning at every start if webhooks may reach this machine.
    pub(crate) fn log(&self) {
        if self.allow_private_webhooks {
            tracing::warn!(
                "WEBHOOKS MAY REACH THIS MACHINE: --allow-private-webhooks allows webhooks and callbacks to loopback \
                 addresses, also over http. Use it for development and tests only, not where others can register \
                 webhooks or start runs."
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::tests::{load, load_with_file};

    #[test]
    fn defaults_are_those_of_the_engine_and_loopback_is_forbidden() {
        let (chosen, default) = (load(&[]).unwrap().webhooks, WebhookSettings::default());
        assert!(!chosen.allow_private_webhooks && chosen.settings().callbacks);
        let times = |settings: &WebhookSettings| {
            (settings.cooldown, settings.lease, settings.keep_deliveries, settings.keep_dead_letters)
        };
        assert_eq!(times(&chosen.settings()), times(&default));
    }

    #[test]
    fn flags_win_over_the_file_and_errors_name_the_setting() {
        let file = "allow_private_webhooks = true\nwebhook_cooldown = \"5m\"\nwebhook_lease = \"10s\"\n\
            webhook_dead_letter_retention = \"60d\"";
        let chosen = load_with_file(&["--webhook-lease", "6s"], file).unwrap().webhooks;
        let settings = chosen.settings();
        assert!(chosen.allow_private_webhooks);
        assert_eq!((settings.cooldown.as_secs(), settings.lease.as_secs()), (300, 6));
        assert_eq!(settings.keep_dead_letters.as_secs(), 60 * 24 * 3600);
        for (line, words) in [
            ("webhook_lease = \"5s\"", "webhook_lease: must be at least 6s"),
            ("webhook_cooldown = \"soon\"", "webhook_cooldown: must be a number"),
            ("webhook_dead_letter_retention = 1.5", "webhook_dead_letter_retention: must be a string"),
        ] {
            let refused = load_with_file(&[], line).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
