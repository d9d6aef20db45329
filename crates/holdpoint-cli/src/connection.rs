//! Finds the server and the key of a command in flags, the environment and the file that `serve` writes. Does not
//! connect.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Once;

use clap::Args;
use holdpoint_client::{Client, ClientBuilder, is_loopback};
use serde::Deserialize;
use url::Url;

use super::failure::Failure;
use super::output::quoted;
use super::trust::{Trust, TrustArgs};

const DEFAULT_SERVER: &str = "http://127.0.0.1:8484";
const DEFAULT_DATA: &str = "./holdpoint-data";

/// The heading of the flags that all commands have.
pub(super) const HEADING: &str = "Server and output";

#[derive(Debug, Args)]
pub struct Connection {
    /// URL of the server [default: the server of the data folder, otherwise http://127.0.0.1:8484]
    #[arg(long, global = true, help_heading = HEADING, value_name = "URL", env = "HOLDPOINT_SERVER")]
    pub server: Option<String>,
    /// API key [default: the key in the data folder, only for the server of that folder]
    #[arg(long, global = true, help_heading = HEADING, value_name = "KEY", env = "HOLDPOINT_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// Data folder of a server on this machine
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "DIR",
        env = "HOLDPOINT_DATA",
        default_value = DEFAULT_DATA
    )]
    pub data: PathBuf,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Print JSON for scripts, one document per line
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
}

#[derive(Debug)]
pub struct Settings {
    /// The URL of the server, without a slash at the end.
    pub server: String,
    pub key: String,
    /// Trusted authorities and the client certificate.
    trust: Trust,
}

/// `client.json` in the data folder, written by `serve`.
#[derive(Debug, Default, Deserialize)]
struct ClientFile {
    server: Option<String>,
    key: Option<String>,
}

impl Connection {
    /// Returns the server of the flag or the environment variable. None for an empty value, such as that of
    /// `HOLDPOINT_SERVER=` in a shell script.
    pub fn named_server(&self) -> Option<String> {
        self.server.clone().filter(|text| !text.trim().is_empty())
    }

    /// Returns the flags that another command needs for the same server, without the key, because it is a secret.
    pub fn to_flags(&self) -> String {
        let expected = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let mut flags = String::new();
        if let Some(server) = self.named_server()
            && expected("HOLDPOINT_SERVER").is_none_or(|known| known != *server)
        {
            flags.push_str(&format!(" --server {}", quoted(&server)));
        }
        if self.data.as_os_str() != expected("HOLDPOINT_DATA").unwrap_or_else(|| DEFAULT_DATA.into()) {
            flags.push_str(&format!(" --data {}", quoted(&self.data.to_string_lossy())));
        }
        flags + &self.trust.to_flags()
    }

    fn named_key(&self) -> Option<String> {
        self.key.clone().filter(|text| !text.trim().is_empty())
    }
}

impl Settings {
    pub fn find(connection: &Connection) -> Result<Self, Failure> {
        let (server, key) = (connection.named_server(), connection.named_key());
        // A command with both flags does not need the file, which may be invalid or unreadable.
        let file = match (&server, &key) {
            (Some(_), Some(_)) => ClientFile::default(),
            _ => read_client_file(&connection.data)?,
        };
        let home = file.server.unwrap_or_else(|| DEFAULT_SERVER.to_string());
        let server = checked_server(server.as_ref().unwrap_or(&home))?;
        let key = match (key, file.key) {
            (Some(key), _) => key,
            // The key is not sent to another server, which could misuse it.
            (None, Some(_)) if parse_server(&server) != parse_server(&home) => {
                return Err(key_mismatch(&server, &home, &connection.data));
            }
            (None, Some(key)) => key,
            (None, None) => return Err(no_key(&server, &connection.data)),
        };
        if !connection.json {
            warn_of_plain_http(&server);
        }
        Ok(Self { server, key: checked_key(&key)?, trust: connection.trust.load()? })
    }

    /// Returns the settings for a server on this machine.
    pub fn local(server: String, key: String) -> Self {
        Self { server, key, trust: Trust::default() }
    }

    /// Returns a builder for a client of this server.
    pub fn builder(self) -> ClientBuilder {
        self.trust.apply(Client::builder(&self.server).key(self.key))
    }
}

/// Warns about an unencrypted connection, once per process.
fn warn_of_plain_http(server: &str) {
    static WARNED: Once = Once::new();
    if sends_key_unencrypted(server) {
        WARNED.call_once(|| {
            eprintln!("warning: the API key is sent to {server} without encryption; use https:// if the server supports it");
        });
    }
}

/// Returns whether requests leave this machine by plain http.
fn sends_key_unencrypted(server: &str) -> bool {
    let Some(url) = parse_server(server) else { return false };
    url.scheme() == "http" && !is_loopback(&url)
}

fn key_mismatch(server: &str, home: &str, data: &Path) -> Failure {
    Failure::key(format!("no key for {server}: the one in {} is for {home} only", data.display()))
        .hint("set the key of this server with --key or HOLDPOINT_KEY, or omit --server")
}

fn no_key(server: &str, data: &Path) -> Failure {
    Failure::key(format!("no key for {server}")).hint(format!(
        "set a key with --key or HOLDPOINT_KEY, or use the data folder of `holdpoint serve` with --data \
         ({} has no key)",
        data.display()
    ))
}

/// Parses the URL of a server. Different spellings of one URL are equal.
fn parse_server(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim().trim_end_matches('/')).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

fn read_client_file(data: &Path) -> Result<ClientFile, Failure> {
    let path = data.join("client.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ClientFile::default()),
        Err(error) => {
            return Err(Failure::key(format!("cannot read {}: {error}", path.display()))
                .hint("use --server and --key, or run this command as the user that runs the server"));
        }
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::key(format!("{} is invalid: {error}", path.display()))
            .hint("use --server and --key, or restart `holdpoint serve`, which writes the file again")
    })
}

fn checked_server(text: &str) -> Result<String, Failure> {
    let server = text.trim().trim_end_matches('/');
    if parse_server(server).is_none() || server.contains(['?', '#']) {
        return Err(Failure::usage(format!("`{text}` is not the URL of a server"))
            .hint("use a URL such as http://127.0.0.1:8484 or https://holdpoint.example.com"));
    }
    Ok(server.to_string())
}

fn checked_key(text: &str) -> Result<String, Failure> {
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "the key has invalid characters (spaces, line ends or non-ASCII)";
        return Err(Failure::usage(message).hint("copy it again, without quotes or line ends"));
    }
    Ok(key.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(server: Option<&str>, key: Option<&str>) -> Connection {
        Connection {
            server: server.map(Into::into),
            key: key.map(Into::into),
            data: "/nonexistent".into(),
            trust: TrustArgs::default(),
            json: false,
        }
    }

    #[test]
    fn the_default_server_is_local_and_a_slash_at_the_end_is_dropped() {
        let found = Settings::find(&connection(None, Some("hp_1\n"))).expect("a key is given");
        assert_eq!((found.server.as_str(), found.key.as_str()), (DEFAULT_SERVER, "hp_1"));
        assert_eq!(checked_server("https://a.example/base/").expect("a URL"), "https://a.example/base");
    }

    #[test]
    fn plain_http_to_another_machine_is_unencrypted() {
        for server in ["http://10.0.0.7:8484", "http://holdpoint.example.com", "http://[2001:db8::1]:8484"] {
            assert!(sends_key_unencrypted(server), "{server}");
        }
        for server in [
            "https://holdpoint.example.com",
            "http://127.0.0.1:8484",
            "http://127.8.0.1",
            "http://[::1]:8484",
            "http://LOCALHOST:8484",
            "http://a.localhost",
        ] {
            assert!(!sends_key_unencrypted(server), "{server}");
        }
        assert!(sends_key_unencrypted("http://127.0.0.1.example.com"));
    }

    #[test]
    fn an_error_without_a_key_has_a_hint() {
        let text = Settings::find(&connection(Some("http://a"), Some(" "))).expect_err("no key").to_string();
        assert!(text.contains("no key for http://a") && text.contains("HOLDPOINT_KEY"), "{text}");
    }

    #[test]
    fn the_key_of_the_client_file_is_for_its_server_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = r#"{"server":"http://127.0.0.1:8484","key":"hp_left"}"#;
        std::fs::write(folder.path().join("client.json"), left).expect("written");
        let find = |server: Option<&str>, key: Option<&str>| {
            let data = folder.path().to_path_buf();
            Settings::find(&Connection { data, ..connection(server, key) }).map(|found| found.key)
        };
        for same in [None, Some("http://127.0.0.1:8484"), Some("HTTP://127.0.0.1:8484/")] {
            assert_eq!(find(same, None).expect("its own server"), "hp_left", "{same:?}");
        }
        for other in ["http://127.0.0.1:8485", "https://127.0.0.1:8484", "http://127.0.0.1:8484@evil.example"]
        {
            let failure = find(Some(other), None).expect_err("another server").to_string();
            assert!(failure.contains("is for http://127.0.0.1:8484 only"), "{failure}");
            assert!(!failure.contains("hp_left"), "{failure}");
            assert_eq!(find(Some(other), Some("hp_mine")).expect("a key is given"), "hp_mine");
        }
    }

    #[test]
    fn invalid_urls_and_keys_are_rejected() {
        for text in ["localhost:8484", "ftp://a", "http://", "", "http://a?b", "http://a b"] {
            assert!(checked_server(text).is_err(), "{text}");
        }
        for text in ["", "a b", "a\nb", "schlüssel"] {
            assert!(checked_key(text).is_err(), "{text}");
        }
    }
}
