//! Settings of `/metrics`: address and required scope.

use std::net::SocketAddr;

use anyhow::bail;
use clap::Args;

use crate::auth::SCOPES;

const HEADING: &str = "Metrics";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MetricsArgs {
    /// Serves /metrics on this address only, in plain http, with /healthz and /readyz beside it [default: with the rest]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_METRICS_LISTEN", value_name = "HOST:PORT", value_parser = super::address)]
    metrics_listen: Option<SocketAddr>,
    /// Requires an API key with this scope for /metrics, such as runs:read [default: no key]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_METRICS_SCOPE", value_name = "SCOPE")]
    metrics_scope: Option<String>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct MetricsFile {
    pub listen: Option<String>,
    pub scope: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetricsSettings {
    /// The address of its own, if it has one.
    pub listen: Option<SocketAddr>,
    /// The scope that a key needs, if one is needed.
    pub scope: Option<&'static str>,
}

impl MetricsFile {
    pub(super) fn take(file: &mut super::File) -> Self {
        Self { listen: file.metrics_listen.take(), scope: file.metrics_scope.take() }
    }
}

impl MetricsArgs {
    pub(super) fn or(self, file: MetricsFile) -> anyhow::Result<MetricsSettings> {
        let listen = file.listen.as_deref().map(super::address).transpose();
        let listen = listen.map_err(|why| anyhow::anyhow!("metrics_listen: {why}"))?;
        let scope = match self.metrics_scope.or(file.scope) {
            None => None,
            Some(name) => match SCOPES.into_iter().find(|scope| *scope == name) {
                Some(scope) => Some(scope),
                None => bail!("--metrics-scope {name}: must be one of {}", SCOPES.join(", ")),
            },
        };
        Ok(MetricsSettings { listen: self.metrics_listen.or(listen), scope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_a_scope_must_exist() {
        let nothing = MetricsArgs::default().or(MetricsFile::default()).unwrap();
        assert_eq!(nothing, MetricsSettings::default(), "open and with the rest unless set");
        let file = || MetricsFile {
            listen: Some("127.0.0.1:9000".to_owned()),
            scope: Some("tenants:manage".to_owned()),
        };
        let of_file = MetricsArgs::default().or(file()).unwrap();
        assert_eq!((of_file.listen.unwrap().port(), of_file.scope), (9000, Some("tenants:manage")));
        let args = MetricsArgs { metrics_scope: Some("runs:read".to_owned()), ..MetricsArgs::default() };
        assert_eq!(args.or(file()).unwrap().scope, Some("runs:read"));
        let args = MetricsArgs { metrics_scope: Some("everything".to_owned()), ..MetricsArgs::default() };
        let said = args.or(MetricsFile::default()).unwrap_err().to_string();
        assert!(said.contains("--metrics-scope everything") && said.contains("runs:read"), "{said}");
        let wrong = MetricsFile { listen: Some("here".to_owned()), ..MetricsFile::default() };
        assert!(MetricsArgs::default().or(wrong).unwrap_err().to_string().starts_with("metrics_listen"));
    }
}
