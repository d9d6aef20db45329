//! TLS of the server, and the warning for servers that others reach without it.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::transport::TlsFiles;

const HEADING: &str = "TLS";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArgs {
    /// Serves https with the certificate in this PEM file, followed by those of intermediate authorities. The file is
    /// read again when it changes and on SIGHUP [default: plain http]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file with authorities of client certificates. Clients without a certificate of one of them are refused on every
    /// path, /healthz included
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct TlsFile {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
}

impl TlsFile {
    pub(super) fn take(file: &mut super::File) -> Self {
        let (cert, key) = (file.tls_cert.take(), file.tls_key.take());
        Self { cert, key, client_ca: file.tls_client_ca.take() }
    }
}

impl TlsArgs {
    pub(super) fn or(self, file: TlsFile) -> anyhow::Result<Option<TlsFiles>> {
        let client_ca = self.tls_client_ca.or(file.client_ca);
        match (self.tls_cert.or(file.cert), self.tls_key.or(file.key)) {
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
    fn a_certificate_needs_its_key_and_flags_win_over_the_file() {
        let path = |name: &str| Some(PathBuf::from(name));
        let files = |args: TlsArgs, file: TlsFile| args.or(file);
        assert_eq!(files(TlsArgs::default(), TlsFile::default()).unwrap(), None);
        let args = TlsArgs { tls_cert: path("c"), ..TlsArgs::default() };
        let file = TlsFile { cert: path("x"), key: path("k"), client_ca: path("ca") };
        let chosen = files(args.clone(), file).unwrap().unwrap();
        assert_eq!((chosen.certificate, chosen.key, chosen.client_ca), ("c".into(), "k".into(), path("ca")));
        let said = files(args, TlsFile::default()).unwrap_err().to_string();
        assert_eq!(said, "--tls-cert requires --tls-key");
        for file in [
            TlsFile { key: path("k"), ..TlsFile::default() },
            TlsFile { client_ca: path("ca"), ..TlsFile::default() },
        ] {
            let said = files(TlsArgs::default(), file).unwrap_err().to_string();
            assert!(said.contains("requires --tls-cert"), "{said}");
        }
    }

    #[test]
    fn a_server_beyond_loopback_without_tls_is_warned_of() {
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
