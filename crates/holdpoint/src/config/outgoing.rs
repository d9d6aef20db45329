//! Which networks the nodes of a server may call, as an operator says it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use holdpoint_engine::outgoing::{Authorities, BadNetwork, Network, Outgoing, Policy};

const HEADING: &str = "Outgoing calls";
/// Where clouds tell their machines secrets.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// For `serve`, and for checking definitions as that server would.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutgoingArgs {
    /// A network that nodes may call although it is private or special, such as 10.20.0.0/16. Repeat for more, or
    /// separate them by commas. Calls still need https
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_ALLOW", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    outgoing_allow: Vec<Network>,
    /// A network that nodes must not call, whatever else is allowed. Repeat for more, or separate them by commas
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_DENY", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    outgoing_deny: Vec<Network>,
    /// For development and tests: nodes may call this machine itself, also over http. Whoever can register a workflow
    /// can then reach whatever listens here
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_OUTGOING_ALLOW_LOOPBACK")]
    outgoing_allow_loopback: bool,
    /// PEM file with certificates of authorities that outgoing calls trust beside those of the machine, such as the one of
    /// your own network
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

/// Blanks beside the commas of a list mean nothing.
fn network(text: &str) -> Result<Network, BadNetwork> {
    text.trim().parse()
}

/// Read at start, so that a file which is missing or holds something else is known before the first call fails.
fn authorities(file: Option<&Path>) -> anyhow::Result<Authorities> {
    let Some(path) = file else { return Ok(Authorities::default()) };
    let about = || format!("--outgoing-ca {}", path.display());
    let pem = std::fs::read(path).with_context(about)?;
    Authorities::from_pem(&pem).map_err(|bad| anyhow!("{}: {bad}", about()))
}

impl OutgoingArgs {
    pub(crate) fn settle(self) -> anyhow::Result<OutgoingSettings> {
        Ok(OutgoingSettings {
            allow: self.outgoing_allow,
            deny: self.outgoing_deny,
            allow_loopback: self.outgoing_allow_loopback,
            authorities: authorities(self.outgoing_ca.as_deref())?,
        })
    }
}

impl OutgoingSettings {
    pub(crate) fn outgoing(&self) -> Outgoing {
        self.with_loopback(self.allow_loopback)
    }

    /// For what subscribers are told: the same networks, but loopback is a choice of its own, and so is how many calls
    /// are under way.
    pub(crate) fn for_webhooks(&self, allow_loopback: bool) -> Outgoing {
        self.with_loopback(allow_loopback)
    }

    /// For models, whose addresses are the operator's own: one may well run on this machine.
    pub(crate) fn for_models(&self) -> Outgoing {
        self.with_loopback(true)
    }

    fn with_loopback(&self, allow_loopback: bool) -> Outgoing {
        let (allow, deny) = (self.allow.clone(), self.deny.clone());
        let authorities = self.authorities.clone();
        Outgoing::new(Policy { allow, deny, allow_loopback, authorities, ..Policy::default() })
    }

    /// What an operator should read in the log at every start. Loopback is warned of where calls are made.
    pub(crate) fn tell(&self) {
        if !self.allow.is_empty() || !self.deny.is_empty() {
            tracing::info!(allow = ?self.allow, deny = ?self.deny, "outgoing calls have rules of their own");
        }
        if !self.authorities.is_empty() {
            tracing::info!(
                certificates = self.authorities.len(),
                "outgoing calls trust authorities of --outgoing-ca"
            );
        }
        let within = |networks: &[Network]| networks.iter().any(|network| network.contains(METADATA));
        if within(&self.allow) && !within(&self.deny) {
            tracing::warn!(
                "--outgoing-allow opens {METADATA}, where clouds tell their machines secrets; close it with \
                 --outgoing-deny 169.254.0.0/16"
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
            "nothing is open unless it is opened"
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
            let error = format!("{:#}", args.settle().unwrap_err());
            assert!(error.contains(&name) && !error.contains("aGVsbG8"), "{error}");
        }
    }
}
