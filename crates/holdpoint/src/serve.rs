//! `holdpoint serve`: opens the engine, prepares the first start, listens, and shuts down without losing work.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use holdpoint_agents::AgentSettings;
use holdpoint_core::TenantId;
use holdpoint_engine::outgoing::Outgoing;
use holdpoint_engine::{Engine, Options};
use holdpoint_providers::{ProviderSettings, Providers};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agents::folder::{self, AgentFolder};
use crate::app::{App, AppState, metrics_router, router, routes};
use crate::auth::{FailureLimit, RateLimit};
use crate::config::{self, Config, Scheme};
use crate::links::Links;
use crate::openwop::webhooks;
use crate::remote_answerer::AnswerService;
use crate::request_log::RequestLog;
use crate::response_headers::PublicScheme;
use crate::streams::Streams;
use crate::transport::{ConnectionLimits, ReloadableTls, Server};
use crate::{demo, extensions, private_files, telemetry, welcome, workflow_folder};

/// Maximum time that a shutdown waits for open requests, and then for the workers.
const GRACE: Duration = Duration::from_secs(10);
/// Maximum connections to the address for metrics.
const METRICS_CONNECTIONS_MAX: usize = 64;

pub(crate) async fn serve(config: Config, customize: impl FnOnce(Options) -> Options) -> anyhow::Result<()> {
    let tls = config.tls.as_ref().map(ReloadableTls::load).transpose()?.map(Arc::new);
    config.outgoing.log();
    config.webhooks.log();
    let outgoing = config.outgoing.for_webhooks(&config.webhooks);
    let agents = config.agents.as_deref().map(folder::read).transpose()?.unwrap_or_default();
    // A customized server may also replace the outgoing policy.
    let options = customize(options(&config, &agents, outgoing.clone())?);
    let engine = Engine::open(options).await.context("cannot open the database")?;
    let tenant = TenantId::parse("default")?;
    // Steps that can fail for external reasons come before the first key is created and shown.
    let listeners = Listeners::open(&config).await?;
    let address = listeners.address;
    let telemetry_thread = match config.telemetry.clone() {
        Some(settings) => Some(telemetry::TelemetryThread::start(settings, engine.clone())?),
        None => None,
    };
    let fixtures = match &config.workflows {
        Some(folder) => workflow_folder::register_all(&engine, &tenant, folder, config.invalid_files).await?,
        None => Vec::new(),
    };
    agents.register(&engine, &tenant, config.invalid_files).await?;
    if config.demo {
        demo::register(&engine, &tenant).await?;
    }
    let prepared = welcome::prepare(&engine, &tenant, &config, address).await?;
    welcome::print_welcome(&config, address, &prepared);

    let (stop, stopping) = watch::channel(false);
    let mut worker = tokio::spawn(engine.worker().run(stopping.clone()));
    let shared = apply_settings(&config, address, AppState::new(engine.clone(), stopping.clone()));
    let telemetry = telemetry_thread.as_ref().map(|telemetry_thread| telemetry_thread.losses.clone());
    let app = Arc::new(AppState { outgoing, fixtures, telemetry, ..shared });
    let mut delivery_worker = tokio::spawn(webhooks::delivery_worker(&app).run(stopping.clone()));
    let mut server = listeners.serve(app, config.connections, tls);
    tokio::select! {
        ended = &mut server => ended?,
        ended = &mut worker => bail!("the worker stopped unexpectedly: {ended:?}"),
        ended = &mut delivery_worker => bail!("the delivery worker of webhooks stopped unexpectedly: {ended:?}"),
        () = wait_for_stop_signal() => {
            tracing::info!("shutting down: completing open requests");
            stop.send_replace(true);
            if tokio::time::timeout(GRACE, server).await.is_err() {
                tracing::warn!("some requests did not complete in time and were cut off");
            }
        }
    }
    stop.send_replace(true);
    let (worker_ended, deliveries_ended) =
        tokio::join!(tokio::time::timeout(GRACE, worker), tokio::time::timeout(GRACE, delivery_worker));
    if worker_ended.is_err() || deliveries_ended.is_err() {
        tracing::warn!("some work did not complete in time; it continues at the next start");
    }
    engine.close().await;
    if let Some(telemetry_thread) = telemetry_thread {
        telemetry_thread.finish().await;
    }
    tracing::info!("stopped; pending interrupts stay open and can be answered after the next start");
    Ok(())
}

/// Applies the settings to the state of the handlers.
fn apply_settings(config: &Config, address: SocketAddr, defaults: AppState) -> AppState {
    let links = config.link_settings(address);
    let is_https = config.scheme() == Scheme::Https || links.public_url.starts_with("https://");
    AppState {
        rate_limit: config.rate_limit.map(|(per_second, burst)| RateLimit::new(per_second, burst)),
        public_scheme: if is_https { PublicScheme::Https } else { PublicScheme::Http },
        links: Links::new(links),
        cors_origins: config.cors_origins.clone(),
        streams: Streams::new(config.quotas.streams),
        failures: FailureLimit::new(config.access.auth_failure_limit),
        metrics: config.metrics,
        ..defaults
    }
}

/// The addresses that the server listens on.
struct Listeners {
    address: SocketAddr,
    main: TcpListener,
    metrics: Option<TcpListener>,
}

impl Listeners {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        let main = listen(config.listen).await?;
        let address = main.local_addr()?;
        let public_url = config.link_settings(address).public_url;
        if let Some(warning) = config::unencrypted_warning(address, config.scheme(), &public_url) {
            tracing::warn!("{warning}");
        }
        let metrics = match config.metrics.listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        if let Some(metrics) = &metrics {
            tracing::info!(address = %metrics.local_addr()?, "metrics are served at a separate address");
        }
        Ok(Self { address, main, metrics })
    }

    /// Serves on all addresses. The task ends after the shutdown, when all requests have responses.
    fn serve(self, app: App, limits: ConnectionLimits, tls: Option<Arc<ReloadableTls>>) -> JoinHandle<()> {
        let stopping = app.stopping.clone();
        if let Some(listener) = self.metrics {
            let limits =
                ConnectionLimits { connections: limits.connections.min(METRICS_CONNECTIONS_MAX), ..limits };
            let (router, stopping) = (metrics_router(app.clone()), stopping.clone());
            let (tls, public_scheme, log) = (None, PublicScheme::Http, None);
            tokio::spawn(Server { listener, router, limits, tls, public_scheme, log, stopping }.run());
        }
        if let Some(tls) = tls.clone() {
            tokio::spawn(tls.follow_files());
        }
        let log = RequestLog::new(routes().iter().map(|route| &route.operation));
        let (listener, public_scheme, router) = (self.main, app.public_scheme, router(app, log.as_ref()));
        tokio::spawn(Server { listener, router, limits, tls, public_scheme, log, stopping }.run())
    }
}

/// Returns the options of the engine. Creates the data folder, which only its owner can read.
fn options(config: &Config, agents: &AgentFolder, webhook_outgoing: Outgoing) -> anyhow::Result<Options> {
    private_files::protect(&config.data, &config.location)?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = if host.trim().is_empty() { "node" } else { host.trim() };
    let outgoing = config.outgoing.outgoing();
    let agents = AgentSettings {
        connections: agents.connections.clone(),
        models: config.outgoing.for_models(),
        tools: outgoing.clone(),
        folder: config.agents.clone(),
        ..AgentSettings::default()
    };
    let options = Options::new(config.location.clone())
        .manual_worker()
        .name(name)
        .outgoing(outgoing.clone())
        .webhook_outgoing(webhook_outgoing)
        .webhooks(config.webhooks.settings())
        .conversations(config.conversations)
        .keep_events(config.event_retention)
        .quotas(config.quotas.engine);
    let options = extensions::add(options, agents, providers(config)?);
    let options = config.seal.apply(options);
    match &config.ask_url {
        Some(url) => Ok(options.answerer(AnswerService::new(url, config.ask_token.as_deref(), outgoing)?)),
        None => Ok(options),
    }
}

/// Returns the providers, which execute graphs outside of Holdpoint.
fn providers(config: &Config) -> anyhow::Result<Providers> {
    let Some(path) = &config.providers else { return Ok(Providers::new(ProviderSettings::default())?) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read --providers {}", path.display()))?;
    let base = path.parent().unwrap_or(Path::new("."));
    let settings = ProviderSettings::parse(&text, base, config.data.join("providers"));
    settings.and_then(Providers::new).with_context(|| format!("--providers {}", path.display()))
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    let taken = matches!(&bound, Err(error) if error.kind() == std::io::ErrorKind::AddrInUse);
    bound.with_context(|| {
        let hint = match address.port().checked_add(1).filter(|_| taken) {
            Some(next) => {
                let other = SocketAddr::new(address.ip(), next);
                format!("another program uses this address; choose another, such as --listen {other}")
            }
            None => "choose another address or port with --listen".to_owned(),
        };
        format!("cannot listen on {address}; {hint}")
    })
}

async fn wait_for_stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            tracing::warn!(%error, "SIGTERM will end the server at once");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
