//! TLS settings of the command line: trusted authorities and the client certificate.

use std::path::{Path, PathBuf};

use clap::Args;
use holdpoint_client::ClientBuilder;

use super::connection::HEADING;
use super::failure::Failure;
use super::output::quoted;

#[derive(Clone, Debug, Default, Args)]
pub struct TrustArgs {
    /// PEM file with the trusted certificate authorities of an https server [default: those of the system]
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "HOLDPOINT_CA")]
    ca: Option<PathBuf>,
    /// PEM file with a client certificate, for servers that require one
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "HOLDPOINT_CLIENT_CERT")]
    client_cert: Option<PathBuf>,
    /// PEM file with the private key of --client-cert
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE", env = "HOLDPOINT_CLIENT_KEY")]
    client_key: Option<PathBuf>,
}

/// The content of the PEM files in [`TrustArgs`].
#[derive(Clone, Debug, Default)]
pub struct Trust {
    authorities: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Trust {
    pub fn apply(self, mut builder: ClientBuilder) -> ClientBuilder {
        if let Some(pem) = self.authorities {
            builder = builder.authorities(pem);
        }
        match self.identity {
            Some((certificate, key)) => builder.identity(certificate, key),
            None => builder,
        }
    }
}

impl TrustArgs {
    /// Reads the files. Their content is checked when a client is built.
    pub fn load(&self) -> Result<Trust, Failure> {
        let authorities = self.ca.as_deref().map(|path| read("--ca", path)).transpose()?;
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                Some((read("--client-cert", certificate)?, read("--client-key", key)?))
            }
            (None, None) => None,
            _ => return Err(Failure::usage("--client-cert and --client-key must be given together")),
        };
        Ok(Trust { authorities, identity })
    }

    /// Returns the flags for another command, without the values that the environment has.
    pub fn to_flags(&self) -> String {
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
