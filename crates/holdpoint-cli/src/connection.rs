//! Where the server is and which key to show it: flags, environment, what `serve` left behind. Opens no connection.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Once;

use clap::Args;
use holdpoint_client::{Client, ClientBuilder};
use serde::Deserialize;

use super::failure::Failure;
use super::output::quoted;
use super::trust::{Trust, TrustArgs};

const DEFAULT_SERVER: &str = "http://127.0.0.1:8484";
const DEFAULT_DATA: &str = "./holdpoint-data";

/// Apart from the command's own flags, because every command has these.
const HEADING: &str = "Server and output";

#[derive(Debug, Args)]
pub struct Connection {
    /// The server; without it, what `serve` left in the data folder, else http://127.0.0.1:8484
    #[arg(long, global = true, help_heading = HEADING, value_name = "URL", env = "HOLDPOINT_SERVER")]
    pub server: Option<String>,
    /// The API key; without it, the one `serve` left in the data folder, for that server only
    #[arg(long, global = true, help_heading = HEADING, value_name = "KEY", env = "HOLDPOINT_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// The data folder of a server on this machine
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
    /// Print JSON, one document a line, for scripts
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
}

#[derive(Debug)]
pub struct Settings {
    /// Without a slash at the end.
    pub server: String,
    pub key: String,
    /// Trusted authorities and the client certificate.
    trust: Trust,
}

/// `client.json` in the data folder, written by `serve`.
#[derive(Debug, Default, Deserialize)]
struct Left {
    server: Option<String>,
    key: Option<String>,
}

impl Connection {
    /// An empty variable counts as none, as in a shell script's `KEY=`.
    pub fn named_server(&self) -> Option<String> {
        self.server.clone().filter(|text| !text.trim().is_empty())
    }

    /// The flags that the next command needs to find the same server. Never the key: it must not be shown.
    pub fn repeated(&self) -> String {
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
        flags + &self.trust.repeated()
    }

    fn named_key(&self) -> Option<String> {
        self.key.clone().filter(|text| !text.trim().is_empty())
    }
}

impl Settings {
    pub fn find(connection: &Connection) -> Result<Self, Failure> {
        let (server, key) = (connection.named_server(), connection.named_key());
        // Someone who says both must not stumble over a broken or forbidden file.
        let left =
            if server.is_some() && key.is_some() { Left::default() } else { read_left(&connection.data)? };
        let home = left.server.unwrap_or_else(|| DEFAULT_SERVER.to_string());
        let server = checked_server(server.as_ref().unwrap_or(&home))?;
        let key = match (key, left.key) {
            (Some(key), _) => key,
            // A key is a secret between two: shown to another server, it could be used by that one.
            (None, Some(_)) if place(&server) != place(&home) => {
                return Err(foreign(&server, &home, &connection.data));
            }
            (None, Some(key)) => key,
            (None, None) => return Err(keyless(&server, &connection.data)),
        };
        if !connection.json {
            warn_of_plain_http(&server);
        }
        Ok(Self { server, key: checked_key(&key)?, trust: connection.trust.load()? })
    }
}

impl Settings {
    /// Returns the settings for a server on this machine.
    pub fn local(server: String, key: String) -> Self {
        Self { server, key, trust: Trust::default() }
    }

    /// Returns a builder for a client of this server.
    pub fn builder(self) -> ClientBuilder {
        self.trust.apply(Client::builder(&self.server).key(self.key))
    }
}

/// Warns once in the life of the process. With `--json` nothing but the server's answer is printed.
fn warn_of_plain_http(server: &str) {
    static WARNED: Once = Once::new();
    if sends_key_unencrypted(server) {
        WARNED.call_once(|| {
            eprintln!("warning: the API key is sent to {server} without encryption; use https:// if the server has it");
        });
    }
}

/// Returns whether requests leave this machine by plain http.
fn sends_key_unencrypted(server: &str) -> bool {
    let Ok(uri) = server.parse::<hyper::Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    let is_loopback = host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    uri.scheme_str() == Some("http") && !is_loopback
}

fn foreign(server: &str, home: &str, data: &Path) -> Failure {
    Failure::key(format!("no key for {server}: the one in {} is for {home} only", data.display()))
        .hint("give the key of that server with --key or HOLDPOINT_KEY, or leave --server out")
}

fn keyless(server: &str, data: &Path) -> Failure {
    Failure::key(format!("no key for {server}")).hint(format!(
        "give one with --key or HOLDPOINT_KEY, or run this where `holdpoint serve` keeps its data \
         ({} holds no key; --data names another folder)",
        data.display()
    ))
}

/// What a URL leads to, however it is spelled.
fn place(server: &str) -> Option<(bool, String, u16, String)> {
    let uri: hyper::Uri = server.trim().parse().ok()?;
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let path = uri.path().trim_end_matches('/').to_string();
    Some((secure, uri.host()?.to_ascii_lowercase(), port, path))
}

fn read_left(data: &Path) -> Result<Left, Failure> {
    let path = data.join("client.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Left::default()),
        Err(error) => {
            return Err(Failure::key(format!("cannot read {}: {error}", path.display()))
                .hint("give --server and --key, or run this as the user that runs the server"));
        }
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::key(format!("{} is damaged: {error}", path.display()))
            .hint("give --server and --key, or restart `holdpoint serve`, which writes the file anew")
    })
}

fn checked_server(text: &str) -> Result<String, Failure> {
    let server = text.trim().trim_end_matches('/');
    let is_url = server.parse::<hyper::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if !is_url || server.contains(['?', '#']) {
        return Err(Failure::usage(format!("`{text}` is not the URL of a server"))
            .hint("write it like http://127.0.0.1:8484 or https://holdpoint.example.com"));
    }
    Ok(server.to_string())
}

fn checked_key(text: &str) -> Result<String, Failure> {
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(
            "the key has characters that no key has (spaces, line ends or non-ASCII)",
        )
        .hint("copy it again, without quotes or line ends"));
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
    fn without_a_key_it_says_what_to_do() {
        let text = Settings::find(&connection(Some("http://a"), Some(" "))).expect_err("no key").to_string();
        assert!(text.contains("no key for http://a") && text.contains("HOLDPOINT_KEY"), "{text}");
    }

    #[test]
    fn a_key_that_was_left_is_for_the_server_that_left_it() {
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
    fn what_is_no_url_or_no_key_is_refused() {
        for text in ["localhost:8484", "ftp://a", "http://", "", "http://a?b", "http://a b"] {
            assert!(checked_server(text).is_err(), "{text}");
        }
        for text in ["", "a b", "a\nb", "schlüssel"] {
            assert!(checked_key(text).is_err(), "{text}");
        }
    }
}
