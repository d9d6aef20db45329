//! Settings of the server. Flags win over the environment, the environment over the file, the file over defaults.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::parser::ValueSource;
use clap::{Args, FromArgMatches, ValueEnum};
use holdpoint_engine::Location;

use crate::telemetry;
use crate::transport::{ConnectionLimits, TlsFiles};
use crate::welcome::reachable;

mod access;
mod connections;
mod cors;
mod file;
mod links;
mod metrics;
mod outgoing;
mod quotas;
mod retention;
mod seal;
mod tls;
mod webhooks;

pub(crate) use access::AccessSettings;
pub(crate) use links::{LinkArgs, LinkSettings};
pub(crate) use metrics::MetricsSettings;
pub(crate) use outgoing::{OutgoingArgs, OutgoingSettings};
pub(crate) use quotas::{QuotaArgs, QuotaSettings};
pub(crate) use seal::{SealArgs, SealSettings};
pub(crate) use tls::{Scheme, unencrypted_warning};
pub(crate) use webhooks::WebhookArgs;

/// The treatment of files with definitions that cannot be registered at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidFiles {
    /// The server does not start.
    Stop,
    /// The server logs them and starts without them.
    Skip,
}

/// The settings of `holdpoint serve`. The name of a field is also its name in the file.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on
    #[arg(long, env = "HOLDPOINT_LISTEN", value_name = "HOST:PORT", value_parser = parse_address, default_value = "127.0.0.1:8484")]
    listen: SocketAddr,
    /// Folder for the database, the seal key and the key file of the command line
    #[arg(long, env = "HOLDPOINT_DATA", value_name = "DIR", default_value = "./holdpoint-data")]
    data: PathBuf,
    /// Database: sqlite:PATH for one server, or postgres://USER:PASSWORD@HOST:PORT/DATABASE for any number of them.
    /// Set a password in the variable or the file: other users can see flags in the list of processes
    /// [default: holdpoint.db in the data folder]
    #[arg(long, env = "HOLDPOINT_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Option<String>,
    /// TOML file with the same settings; docs/reference/settings.md lists their names
    #[arg(long, env = "HOLDPOINT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder whose .json files are registered as workflows at start
    #[arg(long, env = "HOLDPOINT_WORKFLOWS", value_name = "DIR")]
    workflows: Option<PathBuf>,
    /// Folder whose .json files are registered as agents at start; its connections.json defines models and tools
    #[arg(long, env = "HOLDPOINT_AGENTS", value_name = "DIR")]
    agents: Option<PathBuf>,
    /// JSON file with the providers of graphs named langgraph:… and claude:…; see docs/providers.md
    #[arg(long, env = "HOLDPOINT_PROVIDERS_FILE", value_name = "FILE")]
    providers: Option<PathBuf>,
    /// Adds demo agents that need no model, for tests of front ends and of the API; see docs/ag-ui.md
    #[arg(long, env = "HOLDPOINT_DEMO")]
    demo: bool,
    /// Do not start if a file of --workflows or --agents cannot be registered [default: log an error and start]
    #[arg(long, env = "HOLDPOINT_STRICT")]
    strict: bool,
    /// Disables conversations: workflows that use them are rejected, and discovery reports it [default: enabled]
    #[arg(long, env = "HOLDPOINT_NO_CONVERSATIONS")]
    no_conversations: bool,
    #[command(flatten)]
    access: access::AccessArgs,
    /// Requests per second that each API key may make at this node; more get 429 [default: no limit]
    #[arg(long, env = "HOLDPOINT_RATE_LIMIT", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate_limit: Option<u32>,
    /// Requests that a key may make at once after an idle time [default: twice --rate-limit]
    #[arg(long, env = "HOLDPOINT_RATE_BURST", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate_burst: Option<u32>,
    /// Sends traces and metrics to this OpenTelemetry collector, such as http://127.0.0.1:4318; OpenTelemetry's own
    /// variables (OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL, _HEADERS, OTEL_SERVICE_NAME) are supported, too
    #[arg(long, env = "HOLDPOINT_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Protocol of --otlp-endpoint: http/protobuf or http/json [default: http/protobuf]
    #[arg(long, env = "HOLDPOINT_OTLP_PROTOCOL", value_name = "NAME")]
    otlp_protocol: Option<String>,
    /// Sends the side questions of approvers to this URL and records its answers [default: people answer]
    #[arg(long, env = "HOLDPOINT_ASK_URL", value_name = "URL", hide_env_values = true)]
    ask_url: Option<String>,
    /// Token that is sent to --ask-url as `Authorization: Bearer`
    #[arg(long, env = "HOLDPOINT_ASK_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    ask_token: Option<String>,
    /// Format of the log: text, or json with one object per line
    #[arg(long, env = "HOLDPOINT_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Time for which an event without a matching interrupt is kept: a number and s, m, h, d or w, or 0 to keep none
    #[arg(long, env = "HOLDPOINT_EVENT_RETENTION", value_name = "TIME", value_parser = retention::parse, default_value = "24h")]
    event_retention: Duration,
    #[command(flatten)]
    seal: SealArgs,
    #[command(flatten)]
    links: LinkArgs,
    #[command(flatten)]
    outgoing: OutgoingArgs,
    #[command(flatten)]
    webhooks: WebhookArgs,
    #[command(flatten)]
    cors: cors::CorsArgs,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    connections: connections::ConnectionArgs,
    #[command(flatten)]
    tls: tls::TlsArgs,
    #[command(flatten)]
    metrics: metrics::MetricsArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub location: Location,
    pub workflows: Option<PathBuf>,
    pub agents: Option<PathBuf>,
    pub providers: Option<PathBuf>,
    pub demo: bool,
    pub invalid_files: InvalidFiles,
    /// True if workflows may use conversations.
    pub conversations: bool,
    pub access: AccessSettings,
    /// Requests per second and burst of each key.
    pub rate_limit: Option<(u32, u32)>,
    pub telemetry: Option<telemetry::TelemetrySettings>,
    pub seal: SealSettings,
    pub links: LinkSettings,
    /// URL of the answer service for side questions.
    pub ask_url: Option<String>,
    /// Token for the answer service.
    pub ask_token: Option<String>,
    /// Time for which events without a matching interrupt are kept.
    pub event_retention: Duration,
    pub outgoing: OutgoingSettings,
    pub webhooks: WebhookArgs,
    pub cors_origins: Vec<String>,
    pub quotas: QuotaSettings,
    /// Limits and timeouts of connections.
    pub connections: ConnectionLimits,
    pub tls: Option<TlsFiles>,
    pub metrics: MetricsSettings,
}

impl ServeArgs {
    /// Adds the settings of the file that `--config` names. `arguments` begin with the name of the command.
    pub(crate) fn with_file(self, arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<Self> {
        let Some(path) = &self.config else { return Ok(self) };
        let command = file::as_defaults(Self::augment_args(clap::Command::new("serve")), path)?;
        let matches = command.try_get_matches_from(arguments).map_err(|error| file::explain(path, &error))?;
        let mut args = Self::from_arg_matches(&matches)?;
        // Variables win over the file: `HOLDPOINT_SEAL_KEY`, which contains the key itself, wins over a key file that
        // the settings file names.
        if matches.value_source("seal_key_file") == Some(ValueSource::DefaultValue) {
            args.seal.prefer_variable();
        }
        Ok(args)
    }
}

impl Config {
    pub(crate) fn load(args: ServeArgs) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let (endpoint, protocol) = (args.otlp_endpoint.as_deref(), args.otlp_protocol.as_deref());
        Ok(Self {
            listen: args.listen,
            location: match &args.database {
                Some(url) => Location::parse(url).map_err(|why| anyhow!("--database: {why}"))?,
                None => Location::Sqlite(args.data.join("holdpoint.db")),
            },
            workflows: args.workflows,
            agents: args.agents,
            providers: args.providers,
            demo: args.demo,
            invalid_files: if args.strict { InvalidFiles::Stop } else { InvalidFiles::Skip },
            conversations: !args.no_conversations,
            access: args.access.into_settings()?,
            rate_limit: rate_limit(args.rate_limit, args.rate_burst)?,
            telemetry: telemetry::TelemetrySettings::read(endpoint, protocol, variable)?,
            seal: args.seal.into_settings(&args.data, variable)?,
            links: args.links.into_settings(),
            ask_url: args.ask_url,
            ask_token: args.ask_token,
            event_retention: args.event_retention,
            outgoing: args.outgoing.into_settings()?,
            webhooks: args.webhooks,
            cors_origins: args.cors.into_settings()?,
            quotas: args.quotas.into_settings(),
            connections: args.connections.into_settings(),
            tls: args.tls.into_settings()?,
            metrics: args.metrics.into_settings()?,
            data: args.data,
        })
    }

    pub(crate) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Returns the base URL of this server on this machine, without a proxy.
    pub(crate) fn own_url(&self, address: SocketAddr) -> String {
        format!("{}://{}", self.scheme().as_str(), reachable(address))
    }

    /// Returns the settings of links for a server that listens on `address`.
    pub(crate) fn link_settings(&self, address: SocketAddr) -> links::LinkConfig {
        self.links.at(&self.own_url(address))
    }
}

fn rate_limit(rate: Option<u32>, burst: Option<u32>) -> anyhow::Result<Option<(u32, u32)>> {
    match (rate, burst) {
        (Some(rate), burst) => Ok(Some((rate, burst.unwrap_or(rate.saturating_mul(2))))),
        (None, Some(_)) => bail!("--rate-burst requires --rate-limit"),
        (None, None) => Ok(None),
    }
}

/// Parses an address and a port. A host name stands for its first address.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| "give an address and a port, such as 127.0.0.1:8484 or 0.0.0.0:8484".to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reads settings as `holdpoint serve` does.
    pub(crate) fn load(flags: &[&str]) -> Result<Config, String> {
        let arguments = ["serve"].iter().chain(flags).map(OsString::from);
        let command = ServeArgs::augment_args(clap::Command::new("serve"));
        let matches = command.try_get_matches_from(arguments.clone()).map_err(|error| error.to_string())?;
        let args = ServeArgs::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        args.with_file(arguments).and_then(Config::load).map_err(|error| format!("{error:#}"))
    }

    pub(crate) fn load_with_file(flags: &[&str], file: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holdpoint.toml");
        std::fs::write(&path, file).unwrap();
        load(&[flags, &["--config", path.to_str().unwrap()]].concat())
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = "listen = \"127.0.0.1:9000\"\ndata = \"/from/file\"\ndemo = true\nrate_limit = 3\nlog_format = \"json\"";
        let config = load_with_file(&["--data", "/from/flag"], file).unwrap();
        assert_eq!((config.listen.port(), config.demo, config.rate_limit), (9000, true, Some((3, 6))));
        assert_eq!(config.data, PathBuf::from("/from/flag"));
        assert_eq!(config.location, Location::Sqlite("/from/flag/holdpoint.db".into()));
        let defaults = load(&[]).unwrap();
        assert_eq!((defaults.listen.port(), defaults.demo, defaults.conversations), (8484, false, true));
        assert_eq!(defaults.access.auth_failure_limit.map(std::num::NonZero::get), Some(100));
        assert_eq!(defaults.event_retention, Duration::from_secs(24 * 3600));
        let no_limit = load_with_file(&["--auth-failure-limit", "0"], "auth_failure_limit = 7").unwrap();
        assert_eq!(no_limit.access.auth_failure_limit, None);
    }

    #[test]
    fn a_burst_is_two_seconds_worth_unless_set() {
        let limit = |flags: &[&str]| load(flags).map(|config| config.rate_limit).ok();
        assert_eq!(limit(&[]), Some(None), "off unless set");
        assert_eq!(limit(&["--rate-limit", "10"]), Some(Some((10, 20))));
        assert_eq!(limit(&["--rate-limit", "10", "--rate-burst", "1"]), Some(Some((10, 1))));
        assert_eq!(limit(&["--rate-burst", "1"]), None);
        assert_eq!(limit(&["--rate-limit", "0"]), None);
        let refused = load_with_file(&[], "rate_limit = 0").unwrap_err();
        assert!(refused.contains("rate_limit: 0 is not in 1.."), "{refused}");
    }

    #[test]
    fn a_wrong_setting_is_an_error_that_names_it() {
        for (file, words) in [
            ("listn = \"127.0.0.1:9000\"", "unknown setting listn"),
            ("config = \"other.toml\"", "unknown setting config"),
            ("help = true", "unknown setting help"),
            ("listen = [[1]]", "listen: must be a string"),
            ("tls_client_ca = []", "tls_client_ca: must be a string"),
            ("strict = [false, true]", "strict: must be a string"),
            ("cors_origins = [1.5]", "cors_origins: must be a string"),
            ("demo = \"perhaps\"", "demo: "),
            ("listen = \"here\"", "listen: give an address and a port"),
            ("[listen]\nport = 1", "listen: must be a string"),
        ] {
            let refused = load_with_file(&[], file).unwrap_err();
            assert!(refused.contains(words), "{file}: {refused}");
        }
        assert!(load(&["--config", "/missing.toml"]).unwrap_err().contains("cannot read /missing.toml"));
    }

    #[test]
    fn an_error_names_the_line_and_shows_no_secret() {
        let file = "listen = \"x\"\ndatabase = \"postgres://u:secret@h/db\n";
        let refused = load_with_file(&[], file).unwrap_err();
        assert!(refused.contains("line 2") && !refused.contains("secret"), "{refused}");
    }
}
