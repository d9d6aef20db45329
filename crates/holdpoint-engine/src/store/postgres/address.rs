//! Reads the address of a PostgreSQL database. Parameters of our own and those about TLS are taken out here; the rest
//! is the driver's to read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{self, Trust};
use crate::store::Error;

#[cfg(test)]
mod tests;

/// Parameters that we read ourselves.
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

/// How to reach the database, and how one node behaves towards it. `Debug` shows no password: the driver hides it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) tls: tls::Settings,
    /// The most connections this node opens.
    pub(crate) connections: usize,
    /// How many of them commit.
    pub(crate) committers: usize,
    pub(crate) statement_timeout: Duration,
    /// A proxy hands out another server connection for every transaction: nothing may be kept in a session.
    pub(crate) pooled: bool,
    pub(crate) notify: bool,
    pub(crate) schema: Option<String>,
}

impl Settings {
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        read(url).map_err(Error::Address)
    }

    /// Where this is, for people: `host:port/database`, without user and password.
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

    /// PostgreSQL takes the name of the user where no database is named.
    pub(crate) fn database(&self) -> Option<&str> {
        self.config.get_dbname().or(self.config.get_user())
    }
}

fn read(url: &str) -> Result<Settings, String> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("it must begin with postgres:// or postgresql://".to_owned());
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut own, passed_on) = sort_parameters(query)?;
    let mut config = read_config(base, &passed_on)?;
    let (mode, tls) = read_tls(&mut own)?;
    let only_sockets = !config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    // Through a socket of this machine PostgreSQL offers no TLS, and it needs none.
    config.ssl_mode(if only_sockets && config.get_hostaddrs().is_empty() { SslMode::Disable } else { mode });

    let pooled = own.choice("pooler", ["none", "transaction"])? == "transaction";
    let settings = Settings {
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
        return Err(
            "`schema` cannot be set through a pooler that changes sessions under us; set it on the server \
                    instead: ALTER ROLE … SET search_path = …"
                .to_owned(),
        );
    }
    // One more connection reads and one listens.
    if settings.committers + 2 > settings.connections {
        let (committers, connections) = (settings.committers, settings.connections);
        return Err(format!("connections={connections} is too few for committers={committers} and two more"));
    }
    Ok(settings)
}

/// A parameter as it was written.
type Pair<'a> = (&'a str, &'a str);

/// Our parameters, decoded, and the driver's as they were written.
fn sort_parameters(query: &str) -> Result<(Parameters, Vec<Pair<'_>>), String> {
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
    // What does not look like a parameter may be the rest of a password, so it is not repeated.
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') || query.contains('@') {
        return "after the `?` there are no parameters; in a user or a password `?` is written %3F"
            .to_owned();
    }
    let mut known: Vec<&str> = OWN.into_iter().chain(PASSED_ON).collect();
    known.sort_unstable();
    format!("the parameter `{name}` is unknown; known are {}", known.join(", "))
}

fn read_config(base: &str, passed_on: &[Pair<'_>]) -> Result<Config, String> {
    let mut url = base.to_owned();
    for (at, (name, value)) in passed_on.iter().enumerate() {
        url.push(if at == 0 { '?' } else { '&' });
        // The driver takes everything before the first `@` for user and password.
        let _ = write!(url, "{name}={}", value.replace('@', "%40"));
    }
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("it names no host; write postgres://user@host/database".to_owned());
    }
    if config.get_hosts().iter().any(|host| host_name(host).contains('@')) {
        return Err("there is more than one `@` in it; in a user or a password it is written %40".to_owned());
    }
    let given = |name: &str| passed_on.iter().any(|(given, _)| *given == name);
    if !given("application_name") {
        config.application_name("holdpoint");
    }
    if !given("connect_timeout") {
        config.connect_timeout(Duration::from_secs(5));
    }
    // A server that vanished without a word is noticed in less than a minute, not after two hours.
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

/// The modes mean what they mean to PostgreSQL's own tools, and so do the combinations that are refused.
fn read_tls(own: &mut Parameters) -> Result<(SslMode, tls::Settings), String> {
    let root = own.take("sslrootcert");
    let system = root.as_deref() == Some("system");
    let named = own.take("sslmode");
    let mode = named.as_deref().unwrap_or(if system { "verify-full" } else { "prefer" });
    let (mode, trust) = match (mode, root) {
        ("disable", None) => (SslMode::Disable, Trust::Anything),
        ("prefer", None) => (SslMode::Prefer, Trust::Anything),
        ("require", None) => (SslMode::Require, Trust::Anything),
        ("disable" | "prefer", Some(_)) => {
            return Err(format!("`sslrootcert` does nothing with sslmode={mode}; use sslmode=verify-full"));
        }
        ("verify-full", None) => (SslMode::Require, Trust::SystemAndName),
        ("verify-full", Some(_)) if system => (SslMode::Require, Trust::SystemAndName),
        ("verify-full", Some(file)) => (SslMode::Require, Trust::AuthorityAndName(file.into())),
        ("require" | "verify-ca", Some(file)) if !system => (SslMode::Require, Trust::Authority(file.into())),
        ("require" | "verify-ca", _) => {
            return Err(format!(
                "sslmode={mode} with the certificates of the system proves nothing, since anybody can get one of \
                 those; use sslmode=verify-full, or name your own authority with `sslrootcert`"
            ));
        }
        _ => {
            return Err("`sslmode` is one of disable, prefer, require, verify-ca, verify-full".to_owned());
        }
    };
    let identity = match (own.take("sslcert"), own.take("sslkey")) {
        (Some(certificate), Some(key)) => {
            Some(tls::Identity { certificate: certificate.into(), key: key.into() })
        }
        (None, None) => None,
        _ => return Err("`sslcert` and `sslkey` belong together; one is missing".to_owned()),
    };
    Ok((mode, tls::Settings { trust, identity }))
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    }
}

/// Values by name, taken out one by one.
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
            format!("`{name}` is a number from {} to {}, not `{value}`", range.start(), range.end())
        })
    }

    /// The first one is the default.
    fn choice(&mut self, name: &str, known: [&'static str; 2]) -> Result<&'static str, String> {
        let Some(value) = self.take(name) else { return Ok(known[0]) };
        let found = known.into_iter().find(|known| *known == value);
        found.ok_or_else(|| format!("`{name}` is {} or {}, not `{value}`", known[0], known[1]))
    }

    /// A name that needs no more than quotes in a statement.
    fn identifier(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if value.len() > 63 || !value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("`{name}` has only letters, digits and `_`, at most 63, not `{value}`"));
        }
        Ok(Some(value))
    }
}
