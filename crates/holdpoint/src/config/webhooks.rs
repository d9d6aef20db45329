//! How webhooks are delivered, as an operator says it.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use holdpoint_engine::WebhookSettings;

use super::retention;

const HEADING: &str = "Webhooks";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// For development and tests: webhooks and callbacks may lead to this machine itself, also over http. Nothing else is
    /// relaxed. Whoever may register a webhook can then reach whatever listens here
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_ALLOW_PRIVATE_WEBHOOKS")]
    allow_private_webhooks: bool,
    /// How long nothing is sent to a subscriber that failed four times in a row: a number and s, m, h or d [default: 1h]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_WEBHOOK_COOLDOWN", value_name = "TIME", value_parser = retention::parse)]
    webhook_cooldown: Option<Duration>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct WebhookFile {
    pub allow_private: Option<bool>,
    pub cooldown: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebhookChoice {
    pub allow_private: bool,
    cooldown: Option<Duration>,
}

impl WebhookArgs {
    pub(super) fn or(self, file: WebhookFile) -> anyhow::Result<WebhookChoice> {
        let of_file = file.cooldown.as_deref().map(retention::parse).transpose();
        let of_file = of_file.map_err(|why| anyhow!("webhook_cooldown: {why}"))?;
        Ok(WebhookChoice {
            allow_private: self.allow_private_webhooks || file.allow_private.unwrap_or(false),
            cooldown: self.webhook_cooldown.or(of_file),
        })
    }
}

impl WebhookChoice {
    pub(crate) fn settings(&self) -> WebhookSettings {
        let default = WebhookSettings::default();
        let cooldown = self.cooldown.unwrap_or(default.cooldown);
        WebhookSettings { cooldown, callbacks: true, ..default }
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

    #[test]
    fn flags_win_over_the_file_and_nothing_is_open_unless_somebody_opens_it() {
        let nothing = WebhookArgs::default().or(WebhookFile::default()).unwrap();
        assert_eq!(nothing, WebhookChoice::default());
        assert_eq!(nothing.settings().cooldown, Duration::from_secs(3600));
        assert!(nothing.settings().callbacks);
        let file = || WebhookFile { allow_private: Some(true), cooldown: Some("5m".to_owned()) };
        let of_file = WebhookArgs::default().or(file()).unwrap();
        assert_eq!((of_file.allow_private, of_file.settings().cooldown), (true, Duration::from_secs(300)));
        let args = WebhookArgs { webhook_cooldown: Some(Duration::ZERO), ..WebhookArgs::default() };
        assert_eq!(args.or(file()).unwrap().settings().cooldown, Duration::ZERO);
        let odd = WebhookFile { cooldown: Some("soon".to_owned()), ..WebhookFile::default() };
        assert!(WebhookArgs::default().or(odd).unwrap_err().to_string().contains("webhook_cooldown"));
    }
}
