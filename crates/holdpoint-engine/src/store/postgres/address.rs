//! The parser of the address of a PostgreSQL database. It reads the parameters of Holdpoint and of TLS; the driver
//! reads the others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{self, ServerTrust};
use crate::store::Error;

#[cfg(test)]
mod tests;

/// Parameters that this module reads.
const OWN: [&str; 10] = [
    "committers",
    "connections",
    "notify",
    "pooler",
    "schema",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement_timeout",
];

/// Parameters that the driver reads.
const PASSED_ON: [&str; 18] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// The settings of the connections to the database. `Debug` shows no password: the driver hides it.
#[derive(Clone, Debug)]
pub(crate) struct PostgresSettings {
    pub(crate) config: Config,
    pub(crate) tls: tls::TlsSettings,
    /// The maximum number of connections of this process.
    pub(crate) connections: usize,
    /// The number of connections that write.
    pub(crate) committers: usize,
    pub(crate) statement_timeout: Duration,
    /// True behind a transaction pooler, which may use another server connection for every transaction: a session
    /// keeps no state.
    pub(crate) pooled: bool,
    pub(crate) notify: bool,
    pub(crate) schema: Option<String>,
}

impl PostgresSettings {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        read(url).map_err(Error::Address)
    }

    /// Returns the place of the database for messages: `host:port/database`, without user and password.
    pub(crate) fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(host_name);
        let mut hosts: Vec<String> = hosts.collect();
        if hosts.is_empty() {
            hosts = self.config.get_hostaddrs().iter().map(ToString::to_string).collect();
        }
        let ports = self.config.get_ports();
        let mut place = String::new();
        for (at, host) in hosts.iter().enumerate() {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(place, "{comma}{host}:{port}");
        }
        if let Some(database) = self.database() {
            let _ = write!(place, "/{database}");
        }
        place
    }

    /// Returns the name of the database. The default of PostgreSQL is the name of the user.
    pub(crate) fn database(&self) -> Option<&str> {
        self.config.get_dbname().or(self.config.get_user())
    }
}

fn read(url: &str) -> Result<PostgresSettings, String> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("must start with postgres:// or postgresql://".to_owned());
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut own, passed_on) = sort_parameters(query)?;
    let mut config = read_config(base, &passed_on)?;
    let (mode, tls) = read_tls(&mut own)?;
    let only_sockets = !config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    // PostgreSQL offers no TLS over Unix sockets.
    config.ssl_mode(if only_sockets && config.get_hostaddrs().is_empty() { SslMode::Disable } else { mode });

    let pooled = own.choice("pooler", ["none", "transaction"])? == "transaction";
    let settings = PostgresSettings {
        tls,
        connections: own.number("connections", 10, 4..=200)?,
        committers: own.number("committers", 2, 1..=16)?,
        statement_timeout: Duration::from_millis(own.number("statement_timeout", 30_000, 1..=86_400_000)?),
        pooled,
        notify: own.choice("notify", ["on", "off"])? == "on" && !pooled,
        schema: own.identifier("schema")?,
        config,
    };
    if pooled && settings.schema.is_some() {
        return Err("`schema` cannot be used with pooler=transaction; set it on the server \
                    instead: ALTER ROLE … SET search_path = …"
            .to_owned());
    }
    // One more connection reads, and one listens to notifications.
    if settings.committers + 2 > settings.connections {
        let (committers, connections) = (settings.committers, settings.connections);
        return Err(format!(
            "connections={connections} is too few for committers={committers}; use at least {}",
            committers + 2
        ));
    }
    Ok(settings)
}

/// A parameter and its value, not decoded.
type RawParameter<'a> = (&'a str, &'a str);

/// Returns the parameters of this module, decoded, and those of the driver, not decoded.
fn sort_parameters(query: &str) -> Result<(Parameters, Vec<RawParameter<'_>>), String> {
    let mut own = BTreeMap::new();
    let mut passed_on = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some(known) = OWN.into_iter().find(|known| *known == name) {
            let value = percent_decode_str(value).decode_utf8();
            own.insert(known, value.map_err(|_| format!("`{known}` is not UTF-8"))?.into_owned());
        } else if PASSED_ON.contains(&name) {
            passed_on.push((name, value));
        } else {
            return Err(unknown(name, query));
        }
    }
    Ok((Parameters(own), passed_on))
}

fn unknown(name: &str, query: &str) -> String {
    // A text that does not look like a parameter may be a part of a password, so it is not repeated.
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') || query.contains('@') {
        return "the text after `?` is not a list of parameters; write `?` in a user or a password as %3F"
            .to_owned();
    }
    let mut known: Vec<&str> = OWN.into_iter().chain(PASSED_ON).collect();
    known.sort_unstable();
    format!("unknown parameter `{name}`; known parameters are {}", known.join(", "))
}

fn read_config(base: &str, passed_on: &[RawParameter<'_>]) -> Result<Config, String> {
    let mut url = base.to_owned();
    for (at, (name, value)) in passed_on.iter().enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        // The driver reads all text before the first `@` as user and password.
        let _ = write!(url, "{name}={}", value.replace('@', "%40"));
    }
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("the host is missing; write postgres://user@host/database".to_owned());
    }
    if config.get_hosts().iter().any(|host| host_name(host).contains('@')) {
        return Err("more than one `@`; write `@` in a user or a password as %40".to_owned());
    }
    let given = |name: &str| passed_on.iter().any(|(given, _)| *given == name);
    if !given("application_name") {
        config.application_name("holdpoint");
    }
    if !given("connect_timeout") {
        config.connect_timeout(Duration::from_secs(5));
    }
    // The loss of a server is noticed in less than a minute, not after two hours.
    if !given("keepalives_idle") {
        config.keepalives_idle(Duration::from_secs(30));
    }
    if !given("keepalives_interval") {
        config.keepalives_interval(Duration::from_secs(10));
    }
    if !given("tcp_user_timeout") {
        config.tcp_user_timeout(Duration::from_secs(15));
    }
    Ok(config)
}

/// Reads the TLS parameters. Modes and rejected combinations are those of libpq.
fn read_tls(own: &mut Parameters) -> Result<(SslMode, tls::TlsSettings), String> {
    let root = own.take("sslrootcert");
    let system = root.as_deref() == Some("system");
    let named = own.take("sslmode");
    let mode = named.as_deref().unwrap_or(if system { "verify-full" } else { "prefer" });
    let (mode, trust) = match (mode, root) {
        ("disable", None) => (SslMode::Disable, ServerTrust::Any),
        ("prefer", None) => (SslMode::Prefer, ServerTrust::Any),
        ("require", None) => (SslMode::Require, ServerTrust::Any),
        ("disable" | "prefer", Some(_)) => {
            return Err(format!("`sslrootcert` has no effect with sslmode={mode}; use sslmode=verify-full"));
        }
        ("verify-full", None) => (SslMode::Require, ServerTrust::SystemAndName),
        ("verify-full", Some(_)) if system => (SslMode::Require, ServerTrust::SystemAndName),
        ("verify-full", Some(file)) => (SslMode::Require, ServerTrust::AuthorityAndName(file.into())),
        ("require" | "verify-ca", Some(file)) if !system => {
            (SslMode::Require, ServerTrust::Authority(file.into()))
        }
        ("require" | "verify-ca", _) => {
            return Err(format!(
                "sslmode={mode} with the certificates of the system does not authenticate the server, because any \
                 host can get such a certificate; use sslmode=verify-full, or set `sslrootcert` to your own authority"
            ));
        }
        _ => {
            return Err(
                "`sslmode` must be one of disable, prefer, require, verify-ca, verify-full".to_owned()
            );
        }
    };
    let identity = match (own.take("sslcert"), own.take("sslkey")) {
        (Some(certificate), Some(key)) => {
            Some(tls::ClientCertificate { certificate: certificate.into(), key: key.into() })
        }
        (None, None) => None,
        _ => return Err("`sslcert` and `sslkey` must be given together".to_owned()),
    };
    Ok((mode, tls::TlsSettings { trust, identity }))
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    }
}

/// Parameters by name. Reading one removes it.
struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    fn number<N>(&mut self, name: &str, default: N, range: RangeInclusive<N>) -> Result<N, String>
    where
        N: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(value) = self.take(name) else { return Ok(default) };
        value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            format!("`{name}` must be a number from {} to {}, not `{value}`", range.start(), range.end())
        })
    }

    /// Reads a parameter with two possible values. The first is the default.
    fn choice(&mut self, name: &str, known: [&'static str; 2]) -> Result<&'static str, String> {
        let Some(value) = self.take(name) else { return Ok(known[0]) };
        let found = known.into_iter().find(|known| *known == value);
        found.ok_or_else(|| format!("`{name}` must be {} or {}, not `{value}`", known[0], known[1]))
    }

    /// Reads a name that can be used in a statement in quotes.
    fn identifier(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if value.len() > 63 || !value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!(
                "`{name}` must have only letters, digits and `_`, at most 63, not `{value}`"
            ));
        }
        Ok(Some(value))
    }
}
