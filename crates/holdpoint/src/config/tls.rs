//! Settings of TLS, and the warning for servers that other machines reach without it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::transport::TlsFiles;

const HEADING: &str = "TLS";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArgs {
    /// PEM file with the certificate for https, followed by those of intermediate authorities. The file is read again
    /// when it changes and on SIGHUP [default: plain http]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file with authorities of client certificates. Clients without a certificate of one of them are rejected on
    /// every path, including /healthz
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArgs {
    pub(super) fn into_settings(self) -> anyhow::Result<Option<TlsFiles>> {
        let client_ca = self.tls_client_ca;
        match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key, client_ca })),
            (Some(_), None) => bail!("--tls-cert requires --tls-key"),
            (None, Some(_)) => bail!("--tls-key requires --tls-cert"),
            (None, None) if client_ca.is_some() => bail!("--tls-client-ca requires --tls-cert and --tls-key"),
            (None, None) => Ok(None),
        }
    }
}

/// The scheme of the server's own listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    #[default]
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Returns the warning for a server that other machines reach without encryption.
pub(crate) fn unencrypted_warning(
    listen: SocketAddr,
    scheme: Scheme,
    public_url: &str,
) -> Option<&'static str> {
    let is_safe = listen.ip().to_canonical().is_loopback()
        || scheme == Scheme::Https
        || public_url.starts_with("https://");
    (!is_safe).then_some(
        "LISTENING BEYOND THIS MACHINE WITHOUT TLS: API keys, sessions and answers can be read and changed on the \
         network. Serve https with --tls-cert and --tls-key, or put a proxy with TLS in front and set \
         --public-url https://….",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_requires_its_key() {
        let path = |name: &str| Some(PathBuf::from(name));
        assert_eq!(TlsArgs::default().into_settings().unwrap(), None);
        let args = TlsArgs { tls_cert: path("c"), tls_key: path("k"), tls_client_ca: path("ca") };
        let chosen = args.clone().into_settings().unwrap().unwrap();
        assert_eq!((chosen.certificate, chosen.key, chosen.client_ca), ("c".into(), "k".into(), path("ca")));
        let without_key = TlsArgs { tls_key: None, ..args.clone() };
        assert_eq!(without_key.into_settings().unwrap_err().to_string(), "--tls-cert requires --tls-key");
        for args in
            [TlsArgs { tls_cert: None, ..args.clone() }, TlsArgs { tls_cert: None, tls_key: None, ..args }]
        {
            let refused = args.into_settings().unwrap_err().to_string();
            assert!(refused.contains("requires --tls-cert"), "{refused}");
        }
    }

    #[test]
    fn a_server_on_a_network_without_tls_gets_a_warning() {
        let warned = |listen: &str, scheme, public_url| {
            unencrypted_warning(listen.parse().unwrap(), scheme, public_url).is_some()
        };
        assert!(warned("0.0.0.0:8484", Scheme::Http, "http://10.0.0.7:8484"));
        assert!(warned("[::]:8484", Scheme::Http, "http://holdpoint.example.com"));
        assert!(!warned("0.0.0.0:8484", Scheme::Https, "https://10.0.0.7:8484"));
        assert!(!warned("0.0.0.0:8484", Scheme::Http, "https://holdpoint.example.com"));
        assert!(!warned("127.0.0.1:8484", Scheme::Http, "http://127.0.0.1:8484"));
        assert!(!warned("[::1]:8484", Scheme::Http, "http://[::1]:8484"));
        assert!(!warned("[::ffff:127.0.0.1]:8484", Scheme::Http, ""));
    }
}
