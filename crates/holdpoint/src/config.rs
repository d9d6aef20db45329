//! Settings of the server: flags first, then the environment, then the file, then defaults.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use holdpoint_engine::Location;
use serde::Deserialize;

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8484]
    #[arg(long, env = "HOLDPOINT_LISTEN", value_name = "HOST:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Folder for the database and for what the command line needs [default: ./holdpoint-data]
    #[arg(long, env = "HOLDPOINT_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Database: sqlite:PATH [default: holdpoint.db in the data folder]
    #[arg(long, env = "HOLDPOINT_DATABASE", value_name = "URL")]
    database: Option<String>,
    /// TOML file with the same settings: listen, data, database, workflows, bootstrap_key
    #[arg(long, env = "HOLDPOINT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Registers every .json file of this folder as a workflow at start
    #[arg(long, env = "HOLDPOINT_WORKFLOWS", value_name = "DIR")]
    workflows: Option<PathBuf>,
    /// Makes this string an API key with all scopes of the tenant `default`
    #[arg(long, env = "HOLDPOINT_BOOTSTRAP_KEY", value_name = "KEY", hide_env_values = true)]
    bootstrap_key: Option<String>,
}

/// The file. A misspelt setting is an error, not a default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    data: Option<PathBuf>,
    database: Option<String>,
    workflows: Option<PathBuf>,
    bootstrap_key: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub location: Location,
    pub workflows: Option<PathBuf>,
    pub bootstrap_key: Option<String>,
}

impl Config {
    pub(crate) fn load(args: ServeArgs) -> anyhow::Result<Self> {
        let file = match &args.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let listen = file.listen.as_deref().map(address).transpose().map_err(anyhow::Error::msg)?;
        let data = args.data.or(file.data).unwrap_or_else(|| PathBuf::from("./holdpoint-data"));
        let location = location(args.database.or(file.database).as_deref(), &data)?;
        let bootstrap_key = args.bootstrap_key.or(file.bootstrap_key);
        if let Some(key) = &bootstrap_key {
            check_key(key)?;
        }
        Ok(Self {
            listen: args.listen.or(listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8484))),
            data,
            location,
            workflows: args.workflows.or(file.workflows),
            bootstrap_key,
        })
    }
}

/// An address and a port; the address may be a name, of which the first address is taken.
fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| "give an address and a port, such as 127.0.0.1:8484 or 0.0.0.0:8484".to_owned())
}

fn read(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a valid configuration", path.display()))
}

fn location(database: Option<&str>, data: &Path) -> anyhow::Result<Location> {
    match database {
        None => Ok(Location::Sqlite(data.join("holdpoint.db"))),
        Some(url) => match url.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest)) {
            Some("") => {
                bail!("--database {url}: a path must follow, as in sqlite:/var/lib/holdpoint/holdpoint.db")
            }
            Some(path) => Ok(Location::Sqlite(PathBuf::from(path))),
            None => bail!("--database: only sqlite:PATH is supported by this version"),
        },
    }
}

/// A key travels in a header. A short one is the operator's risk, and said to be one.
fn check_key(key: &str) -> anyhow::Result<()> {
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_graphic()) {
        bail!("--bootstrap-key must be printable ASCII without spaces, and not empty");
    }
    if key.len() < 16 {
        tracing::warn!("the bootstrap key has fewer than 16 characters and can be guessed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holdpoint.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:9000\"\ndata = \"/from/file\"\n").unwrap();
        let args = ServeArgs { config: Some(path), data: Some("/from/flag".into()), ..ServeArgs::default() };
        let config = Config::load(args).unwrap();
        assert_eq!(config.listen.port(), 9000);
        assert_eq!(config.data, PathBuf::from("/from/flag"));
        assert_eq!(config.location, Location::Sqlite("/from/flag/holdpoint.db".into()));
    }

    #[test]
    fn a_misspelt_setting_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holdpoint.toml");
        std::fs::write(&path, "listn = \"127.0.0.1:9000\"\n").unwrap();
        let args = ServeArgs { config: Some(path), ..ServeArgs::default() };
        assert!(format!("{:#}", Config::load(args).unwrap_err()).contains("listn"));
    }

    #[test]
    fn databases_we_do_not_know_are_refused() {
        let args = ServeArgs { database: Some("mysql://x".to_owned()), ..ServeArgs::default() };
        assert!(Config::load(args).is_err());
        let args = ServeArgs { bootstrap_key: Some("two words".to_owned()), ..ServeArgs::default() };
        assert!(Config::load(args).is_err());
    }
}
