//! TLS settings of the command line: trusted authorities and the client certificate.

use std::path::{Path, PathBuf};

use clap::Args;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::failure::Failure;
use super::output::quoted;

const HEADING: &str = "Server and output";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TrustArgs {
    /// PEM file with the authorities that the certificate of an https server must come from [default: the public ones]
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "HOLDPOINT_CA")]
    ca: Option<PathBuf>,
    /// PEM file with a client certificate, for servers that require one
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "HOLDPOINT_CLIENT_CERT")]
    client_cert: Option<PathBuf>,
    /// PEM file with the private key of --client-cert
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "HOLDPOINT_CLIENT_KEY")]
    client_key: Option<PathBuf>,
}

impl TrustArgs {
    /// Reads the files. Returns None if there are none.
    pub(super) fn load(&self) -> Result<Option<TlsConfig>, Failure> {
        let roots = self.ca.as_deref().map(|path| certificates("--ca", path)).transpose()?;
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates("--client-cert", certificate)?;
                Some(ClientCert::new_with_certs(&chain, private_key(key)?))
            }
            (None, None) => None,
            _ => return Err(Failure::usage("--client-cert and --client-key must be given together")),
        };
        if roots.is_none() && identity.is_none() {
            return Ok(None);
        }
        let builder = TlsConfig::builder().client_cert(identity);
        Ok(Some(match roots {
            Some(roots) => builder.root_certs(RootCerts::new_with_certs(&roots)).build(),
            None => builder.build(),
        }))
    }

    /// Returns the flags for the next command. What the environment sets already needs no flag.
    pub(super) fn repeated(&self) -> String {
        let flags = [
            ("--ca", "HOLDPOINT_CA", &self.ca),
            ("--client-cert", "HOLDPOINT_CLIENT_CERT", &self.client_cert),
            ("--client-key", "HOLDPOINT_CLIENT_KEY", &self.client_key),
        ];
        let given = flags.into_iter().filter_map(|(flag, variable, path)| {
            let path = path.as_ref()?;
            let is_set = std::env::var_os(variable).is_some_and(|set| set == *path);
            (!is_set).then(|| format!(" {flag} {}", quoted(&path.to_string_lossy())))
        });
        given.collect()
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::usage(format!("{flag} {}: {error}", path.display())))
}

fn certificates(flag: &str, path: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let pem = read(flag, path)?;
    let items = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = items.collect();
    if found.is_empty() {
        let message = format!("{flag} {}: has no certificate in PEM format", path.display());
        return Err(Failure::usage(message));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKey<'static>, Failure> {
    // The error of the parser is not shown: it may quote the key.
    PrivateKey::from_pem(&read("--client-key", path)?).map_err(|_| {
        Failure::usage(format!("--client-key {}: is not a private key in PEM format", path.display()))
    })
}
