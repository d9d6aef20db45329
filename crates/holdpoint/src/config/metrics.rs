//! Settings of `/metrics`: address and required scope.

use std::net::SocketAddr;

use anyhow::bail;
use clap::Args;

use crate::auth::SCOPES;

const HEADING: &str = "Metrics";

#[derive(Clone, Debug, Args)]
pub(crate) struct MetricsArgs {
    /// Serves /metrics on this address only, over plain http, with /healthz and /readyz [default: the address of the API]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_METRICS_LISTEN", value_name = "HOST:PORT", value_parser = super::parse_address)]
    metrics_listen: Option<SocketAddr>,
    /// Requires an API key with this scope for /metrics, such as runs:read [default: no key]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_METRICS_SCOPE", value_name = "SCOPE")]
    metrics_scope: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetricsSettings {
    /// The separate address, if there is one.
    pub listen: Option<SocketAddr>,
    /// The required scope, if one is required.
    pub scope: Option<&'static str>,
}

impl MetricsArgs {
    pub(super) fn into_settings(self) -> anyhow::Result<MetricsSettings> {
        let scope = match self.metrics_scope {
            None => None,
            Some(name) => match SCOPES.into_iter().find(|scope| *scope == name) {
                Some(scope) => Some(scope),
                None => bail!("--metrics-scope {name}: must be one of {}", SCOPES.join(", ")),
            },
        };
        Ok(MetricsSettings { listen: self.metrics_listen, scope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{load, load_with_file};

    #[test]
    fn a_scope_must_exist() {
        assert_eq!(
            load(&[]).unwrap().metrics,
            MetricsSettings::default(),
            "open and at the address of the API unless set"
        );
        let lines = "metrics_listen = \"127.0.0.1:9464\"\nmetrics_scope = \"tenants:manage\"";
        let of_file = load_with_file(&[], lines).unwrap().metrics;
        assert_eq!((of_file.listen.unwrap().port(), of_file.scope), (9464, Some("tenants:manage")));
        let refused = load(&["--metrics-scope", "everything"]).unwrap_err();
        assert!(refused.contains("--metrics-scope everything") && refused.contains("runs:read"), "{refused}");
        let refused = load_with_file(&[], "metrics_listen = \"here\"").unwrap_err();
        assert!(refused.contains("metrics_listen: give an address and a port"), "{refused}");
    }
}
