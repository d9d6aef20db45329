//! Settings of the outgoing policy: networks that the nodes of a server may call.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use holdpoint_engine::outgoing::{Authorities, BadNetwork, Network, Outgoing, OutgoingPolicy};

use super::WebhookArgs;

const HEADING: &str = "Outgoing calls";
/// The metadata service of clouds, which gives out credentials.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Flags of `serve`, and of `workflows check`, which checks definitions with the same policy.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutgoingArgs {
    /// Network that nodes may call although it is private or special, such as 10.20.0.0/16. Repeat for more, or
    /// separate them by commas. Calls still need https
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_ALLOW", value_name = "CIDR", value_delimiter = ',', value_parser = parse_network)]
    outgoing_allow: Vec<Network>,
    /// Network that nodes must not call; wins over --outgoing-allow. Repeat for more, or separate them by commas
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_DENY", value_name = "CIDR", value_delimiter = ',', value_parser = parse_network)]
    outgoing_deny: Vec<Network>,
    /// For development and tests: nodes may call this machine itself, also over http. Any caller that may register a
    /// workflow can then reach local services
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_ALLOW_LOOPBACK")]
    outgoing_allow_loopback: bool,
    /// PEM file with certificates of authorities that outgoing calls trust in addition to those of the machine, such as
    /// the one of your own network
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_CA", value_name = "FILE")]
    outgoing_ca: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutgoingSettings {
    allow: Vec<Network>,
    deny: Vec<Network>,
    allow_loopback: bool,
    authorities: Authorities,
}

/// Parses a network. Spaces around the commas of a list are ignored.
fn parse_network(text: &str) -> Result<Network, BadNetwork> {
    text.trim().parse()
}

/// Reads the authorities at the start, so that a missing or invalid file is an error before the first call.
fn read_authorities(file: Option<&Path>) -> anyhow::Result<Authorities> {
    let Some(path) = file else { return Ok(Authorities::default()) };
    let about = || format!("--outgoing-ca {}", path.display());
    let pem = std::fs::read(path).with_context(about)?;
    Authorities::from_pem(&pem).map_err(|bad| anyhow!("{}: {bad}", about()))
}

impl OutgoingArgs {
    pub(crate) fn into_settings(self) -> anyhow::Result<OutgoingSettings> {
        Ok(OutgoingSettings {
            allow: self.outgoing_allow,
            deny: self.outgoing_deny,
            allow_loopback: self.outgoing_allow_loopback,
            authorities: read_authorities(self.outgoing_ca.as_deref())?,
        })
    }
}

impl OutgoingSettings {
    pub(crate) fn outgoing(&self) -> Outgoing {
        Outgoing::new(self.policy())
    }

    /// Returns the client for webhooks: the same networks, with a separate setting for loopback and a separate limit of
    /// concurrent calls.
    pub(crate) fn for_webhooks(&self, webhooks: &WebhookArgs) -> Outgoing {
        let allow_loopback = webhooks.allow_private_webhooks;
        Outgoing::new(OutgoingPolicy { allow_loopback, ..self.policy() })
    }

    /// Returns the client for models. The operator sets their addresses, so they may be on this machine.
    pub(crate) fn for_models(&self) -> Outgoing {
        Outgoing::new(OutgoingPolicy { allow_loopback: true, ..self.policy() })
    }

    fn policy(&self) -> OutgoingPolicy {
        OutgoingPolicy {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            allow_loopback: self.allow_loopback,
            authorities: self.authorities.clone(),
            ..OutgoingPolicy::default()
        }
    }

    /// Logs the policy at the start. The client itself warns of loopback.
    pub(crate) fn log(&self) {
        if !self.allow.is_empty() || !self.deny.is_empty() {
            tracing::info!(allow = ?self.allow, deny = ?self.deny, "outgoing policy");
        }
        if !self.authorities.is_empty() {
            tracing::info!(
                certificates = self.authorities.len(),
                "outgoing calls trust the authorities of --outgoing-ca"
            );
        }
        let within = |networks: &[Network]| networks.iter().any(|network| network.contains(METADATA));
        if within(&self.allow) && !within(&self.deny) {
            tracing::warn!(
                "--outgoing-allow includes {METADATA}, the metadata service of clouds, which gives out credentials; \
                 exclude it with --outgoing-deny 169.254.0.0/16"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::tests::{load, load_with_file};

    #[test]
    fn networks_of_flags_replace_those_of_the_file() {
        let file = "outgoing_allow = [\"10.0.0.0/8\"]\noutgoing_deny = [\"10.9.0.0/16\", \"10.8.0.0/16\"]\n\
            outgoing_allow_loopback = true";
        let settings =
            load_with_file(&["--outgoing-allow", "192.168.0.0/16, 172.16.0.0/12"], file).unwrap().outgoing;
        let networks = |texts: [&str; 2]| texts.map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(settings.allow, networks(["192.168.0.0/16", "172.16.0.0/12"]));
        assert_eq!(settings.deny, networks(["10.9.0.0/16", "10.8.0.0/16"]));
        assert!(settings.allow_loopback);
        assert_eq!(
            load(&[]).unwrap().outgoing,
            OutgoingSettings::default(),
            "no network is allowed unless set"
        );
        let refused = load_with_file(&[], "outgoing_allow = [\"10.0.0.1/8\"]").unwrap_err();
        assert!(refused.contains("outgoing_allow: ") && refused.contains("10.0.0.1/8"), "{refused}");
    }

    #[test]
    fn authorities_that_cannot_be_read_are_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let broken = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        for path in [
            folder.path().join("missing.pem"),
            folder.path().to_owned(),
            at("empty.pem", ""),
            at("other.pem", "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n"),
            at("broken.pem", broken),
        ] {
            let name = path.display().to_string();
            let args = OutgoingArgs { outgoing_ca: Some(path), ..OutgoingArgs::default() };
            let error = format!("{:#}", args.into_settings().unwrap_err());
            assert!(error.contains(&name) && !error.contains("aGVsbG8"), "{error}");
        }
    }
}
