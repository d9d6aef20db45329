//! Settings of the server: flags first, then the environment, then the file, then defaults.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use holdpoint_engine::Location;
use serde::Deserialize;

use crate::telemetry;
use crate::transport::{Limits, TlsFiles};
use crate::welcome::reachable;

mod access;
mod connections;
mod cors;
mod database;
mod links;
mod metrics;
mod outgoing;
mod quotas;
mod retention;
mod seal;
mod tls;
mod webhooks;

use connections::ConnectionFile;
use metrics::MetricsFile;
use tls::TlsFile;

pub(crate) use access::AccessSettings;
pub(crate) use database::{location, shown};
pub(crate) use links::{LinkArgs, LinkSettings};
pub(crate) use metrics::MetricsSettings;
pub(crate) use outgoing::{OutgoingArgs, OutgoingSettings};
pub(crate) use quotas::{QuotaArgs, QuotaSettings};
pub(crate) use seal::{SealArgs, SealSettings};
pub(crate) use tls::{Scheme, unencrypted_warning};
pub(crate) use webhooks::{WebhookArgs, WebhookChoice};

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8484]
    #[arg(long, env = "HOLDPOINT_LISTEN", value_name = "HOST:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Folder for the database and for what the command line needs [default: ./holdpoint-data]
    #[arg(long, env = "HOLDPOINT_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Database: sqlite:PATH for one server, or postgres://USER:PASSWORD@HOST:PORT/DATABASE for any number of them.
    /// A password is better given in the variable or the file, where others cannot see it in the list of processes
    /// [default: holdpoint.db in the data folder]
    #[arg(long, env = "HOLDPOINT_DATABASE", value_name = "URL", hide_env_values = true)]
    database: Option<String>,
    /// TOML file with the same settings: listen, data, database, workflows, agents, providers, demo, strict, no_conversations, bootstrap_key,
    /// auth_failure_limit, rate_limit, rate_burst, public_url, link_seconds_max, link_rate_limit, otlp_endpoint, otlp_protocol, ask_url,
    /// ask_token, event_retention, seal_key_file, outgoing_allow, outgoing_deny, outgoing_allow_loopback,
    /// outgoing_ca, allow_private_webhooks, webhook_cooldown, webhook_lease, webhook_log_retention,
    /// webhook_dead_letter_retention, cors_origins, connections_max, connections_per_address, header_timeout,
    /// idle_timeout, write_timeout, tls_cert, tls_key, tls_client_ca, metrics_listen, metrics_scope, and the table
    /// [quotas] with open_runs, stored_bytes, definitions, deliveries, family_runs, fork_bytes and streams
    #[arg(long, env = "HOLDPOINT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Registers every .json file of this folder as a workflow at start
    #[arg(long, env = "HOLDPOINT_WORKFLOWS", value_name = "DIR")]
    workflows: Option<PathBuf>,
    /// Declares every .json file of this folder as an agent at start; connections.json in it names models and tools
    #[arg(long, env = "HOLDPOINT_AGENTS", value_name = "DIR")]
    agents: Option<PathBuf>,
    /// JSON file that says where graphs run that callers name langgraph:… and claude:…: see docs/providers.md
    #[arg(long, env = "HOLDPOINT_PROVIDERS_FILE", value_name = "FILE")]
    providers: Option<PathBuf>,
    /// Adds agents that need no model, for trying things and for building front ends: see docs/ag-ui.md
    #[arg(long, env = "HOLDPOINT_DEMO")]
    demo: bool,
    /// Do not start when a file of --workflows or --agents cannot be registered [default: start without it, and say so]
    #[arg(long, env = "HOLDPOINT_STRICT")]
    strict: bool,
    /// No conversations: workflows that hold them are refused, and discovery says so [default: they are on]
    #[arg(long, env = "HOLDPOINT_NO_CONVERSATIONS")]
    no_conversations: bool,
    #[command(flatten)]
    access: access::AccessArgs,
    /// Requests a second that each API key may make at this node; more get 429 [default: no limit]
    #[arg(long, env = "HOLDPOINT_RATE_LIMIT", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate_limit: Option<u32>,
    /// Requests that a key may make at once after a pause [default: twice --rate-limit]
    #[arg(long, env = "HOLDPOINT_RATE_BURST", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate_burst: Option<u32>,
    /// Sends traces and metrics to this OpenTelemetry collector, such as http://127.0.0.1:4318; OpenTelemetry's own
    /// variables (OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL, _HEADERS, OTEL_SERVICE_NAME) are understood, too
    #[arg(long, env = "HOLDPOINT_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// How: http/protobuf or http/json [default: http/protobuf]
    #[arg(long, env = "HOLDPOINT_OTLP_PROTOCOL", value_name = "NAME")]
    otlp_protocol: Option<String>,
    /// Sends what approvers ask beside a decision to this URL, and records what it answers [default: people answer]
    #[arg(long, env = "HOLDPOINT_ASK_URL", value_name = "URL", hide_env_values = true)]
    ask_url: Option<String>,
    /// Sent to --ask-url as `Authorization: Bearer`
    #[arg(long, env = "HOLDPOINT_ASK_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    ask_token: Option<String>,
    /// How the log is written: text or json, one object a line [default: text]
    #[arg(long, env = "HOLDPOINT_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
    /// How long an event that nobody waits for yet is kept: a number and s, m, h or d, or 0 for not at all [default: 24h]
    #[arg(long, env = "HOLDPOINT_EVENT_RETENTION", value_name = "TIME", value_parser = retention::parse)]
    event_retention: Option<Duration>,
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

/// The file. A misspelt setting is an error, not a default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    data: Option<PathBuf>,
    database: Option<String>,
    workflows: Option<PathBuf>,
    agents: Option<PathBuf>,
    providers: Option<PathBuf>,
    demo: Option<bool>,
    strict: Option<bool>,
    no_conversations: Option<bool>,
    bootstrap_key: Option<String>,
    auth_failure_limit: Option<u32>,
    rate_limit: Option<u32>,
    rate_burst: Option<u32>,
    public_url: Option<String>,
    link_seconds_max: Option<u64>,
    link_rate_limit: Option<u32>,
    otlp_endpoint: Option<String>,
    otlp_protocol: Option<String>,
    seal_key_file: Option<PathBuf>,
    ask_url: Option<String>,
    ask_token: Option<String>,
    event_retention: Option<String>,
    outgoing_allow: Option<Vec<String>>,
    outgoing_deny: Option<Vec<String>>,
    outgoing_allow_loopback: Option<bool>,
    outgoing_ca: Option<PathBuf>,
    allow_private_webhooks: Option<bool>,
    webhook_cooldown: Option<String>,
    webhook_lease: Option<String>,
    webhook_log_retention: Option<String>,
    webhook_dead_letter_retention: Option<String>,
    cors_origins: Option<Vec<String>>,
    quotas: Option<QuotaArgs>,
    connections_max: Option<u64>,
    connections_per_address: Option<u64>,
    header_timeout: Option<String>,
    idle_timeout: Option<String>,
    write_timeout: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_client_ca: Option<PathBuf>,
    metrics_listen: Option<String>,
    metrics_scope: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub location: Location,
    pub workflows: Option<PathBuf>,
    pub agents: Option<PathBuf>,
    pub providers: Option<PathBuf>,
    /// Whether a definition that cannot be registered stops the start.
    pub demo: bool,
    pub strict: bool,
    /// Whether workflows may hold conversations.
    pub conversations: bool,
    pub access: AccessSettings,
    /// Requests a second for each key, and how many at once.
    pub rate_limit: Option<(u32, u32)>,
    pub telemetry: Option<telemetry::Settings>,
    pub seal: SealSettings,
    pub links: LinkSettings,
    /// Who answers what approvers ask, and the token it wants.
    pub ask_url: Option<String>,
    pub ask_token: Option<String>,
    /// How long events from outside are kept for who comes later.
    pub event_retention: Duration,
    pub outgoing: OutgoingSettings,
    pub webhooks: WebhookChoice,
    pub cors_origins: Vec<String>,
    pub quotas: QuotaSettings,
    /// Limits and timeouts of connections.
    pub connections: Limits,
    pub tls: Option<TlsFiles>,
    pub metrics: MetricsSettings,
}

impl Config {
    pub(crate) fn load(args: ServeArgs) -> anyhow::Result<Self> {
        let mut file = match &args.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let connections = args.connections.or(ConnectionFile::take(&mut file))?;
        let tls = args.tls.or(TlsFile::take(&mut file))?;
        let metrics = args.metrics.or(MetricsFile::take(&mut file))?;
        let listen = file.listen.as_deref().map(address).transpose().map_err(anyhow::Error::msg)?;
        let data = args.data.or(file.data).unwrap_or_else(|| PathBuf::from("./holdpoint-data"));
        let location = location(args.database.or(file.database).as_deref(), &data)?;
        let of_access = access::AccessFile {
            bootstrap_key: file.bootstrap_key,
            auth_failure_limit: file.auth_failure_limit,
        };
        let (rate, burst) = (args.rate_limit.or(file.rate_limit), args.rate_burst.or(file.rate_burst));
        let rate_limit = rate_limit(rate, burst)?;
        let endpoint = args.otlp_endpoint.or(file.otlp_endpoint);
        let protocol = args.otlp_protocol.or(file.otlp_protocol);
        let telemetry = telemetry::Settings::read(endpoint.as_deref(), protocol.as_deref(), |name| {
            std::env::var(name).ok()
        })?;
        let of_links = links::LinkFile {
            public_url: file.public_url,
            link_seconds_max: file.link_seconds_max,
            link_rate_limit: file.link_rate_limit,
        };
        let of_file = outgoing::OutgoingFile {
            allow: file.outgoing_allow,
            deny: file.outgoing_deny,
            allow_loopback: file.outgoing_allow_loopback,
            ca: file.outgoing_ca,
        };
        let of_webhooks = webhooks::WebhookFile {
            allow_private: file.allow_private_webhooks,
            cooldown: file.webhook_cooldown,
            lease: file.webhook_lease,
            log_retention: file.webhook_log_retention,
            dead_letter_retention: file.webhook_dead_letter_retention,
        };
        let seal = args.seal.or(file.seal_key_file, &data, |name| std::env::var(name).ok())?;
        Ok(Self {
            listen: args.listen.or(listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8484))),
            data,
            location,
            workflows: args.workflows.or(file.workflows),
            agents: args.agents.or(file.agents),
            providers: args.providers.or(file.providers),
            demo: args.demo || file.demo.unwrap_or(false),
            strict: args.strict || file.strict.unwrap_or(false),
            conversations: !(args.no_conversations || file.no_conversations.unwrap_or(false)),
            access: args.access.or(of_access)?,
            rate_limit,
            telemetry,
            seal,
            links: args.links.or(of_links)?,
            ask_url: args.ask_url.or(file.ask_url),
            ask_token: args.ask_token.or(file.ask_token),
            event_retention: retention::choose(args.event_retention, file.event_retention.as_deref())?,
            outgoing: args.outgoing.or(of_file)?,
            webhooks: args.webhooks.or(of_webhooks)?,
            cors_origins: args.cors.or(file.cors_origins)?,
            quotas: args.quotas.or(file.quotas),
            connections,
            tls,
            metrics,
        })
    }

    pub(crate) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Returns what URLs of this server begin with on this machine, without a proxy.
    pub(crate) fn own_url(&self, address: SocketAddr) -> String {
        format!("{}://{}", self.scheme().as_str(), reachable(address))
    }

    /// Returns what the links of this server begin with.
    pub(crate) fn link_settings(&self, address: SocketAddr) -> links::Settings {
        self.links.at(&self.own_url(address))
    }
}

fn rate_limit(rate: Option<u32>, burst: Option<u32>) -> anyhow::Result<Option<(u32, u32)>> {
    match (rate, burst) {
        (Some(0), _) | (_, Some(0)) => bail!("rate_limit and rate_burst must be at least 1"),
        (Some(rate), burst) => Ok(Some((rate, burst.unwrap_or(rate.saturating_mul(2))))),
        (None, Some(_)) => bail!("--rate-burst says nothing without --rate-limit"),
        (None, None) => Ok(None),
    }
}

/// An address and a port; the address may be a name, of which the first address is taken.
fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| "give an address and a port, such as 127.0.0.1:8484 or 0.0.0.0:8484".to_owned())
}

fn read(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Of the error only the words: it would also show the line, and in it a key or a password.
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        anyhow!("{} is not a valid configuration: line {line}: {}", path.display(), error.message())
    })
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
    fn a_burst_is_two_seconds_worth_unless_said_otherwise() {
        let load = |rate_limit, rate_burst| {
            let args = ServeArgs { rate_limit, rate_burst, ..ServeArgs::default() };
            Config::load(args).map(|config| config.rate_limit).ok()
        };
        assert_eq!(load(None, None), Some(None), "off unless asked for");
        assert_eq!(load(Some(10), None), Some(Some((10, 20))));
        assert_eq!(load(Some(10), Some(1)), Some(Some((10, 1))));
        assert_eq!(load(None, Some(1)), None);
        assert_eq!(load(Some(0), None), None);
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
    fn a_broken_file_is_named_with_its_line_and_shows_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holdpoint.toml");
        std::fs::write(&path, "listen = \"x\"\ndatabase = \"postgres://u:secret@h/db\n").unwrap();
        let args = ServeArgs { config: Some(path), ..ServeArgs::default() };
        let error = format!("{:#}", Config::load(args).unwrap_err());
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
    }
}
