//! `holdpoint serve`: opens the engine, prepares the first start, listens, and goes down without losing anything.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use holdpoint_core::TenantId;
use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::outgoing::Outgoing;
use holdpoint_engine::{Engine, Options, ProviderSettings};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::agents::folder::{self, Folder};
use crate::answering::AnswerService;
use crate::app::{App, Shared, metrics_router, router, routes};
use crate::auth::{FailureLimit, RateLimit};
use crate::config::{self, Config, Scheme};
use crate::links::Links;
use crate::openwop::webhooks::Bodies;
use crate::request_log::RequestLog;
use crate::response_headers::Reach;
use crate::streams::Streams;
use crate::transport::{Limits, Server, Tls};
use crate::{demo, private_files, seeding, telemetry, welcome};

/// How long requests in flight may take once the server is going down.
const GRACE: Duration = Duration::from_secs(10);
/// Connections at a time to the address for metrics.
const METRICS_CONNECTIONS_MAX: usize = 64;

pub(crate) async fn serve(config: Config, customize: impl FnOnce(Options) -> Options) -> anyhow::Result<()> {
    let tls = config.tls.as_ref().map(Tls::load).transpose()?.map(Arc::new);
    config.outgoing.tell();
    config.webhooks.tell();
    let outgoing = config.outgoing.for_webhooks(config.webhooks.allow_private_webhooks);
    // A server with node types of its own may have its own idea of outgoing calls as well.
    let agents = config.agents.as_deref().map(folder::read).transpose()?.unwrap_or_default();
    let options = customize(options(&config, &agents, outgoing.clone())?);
    let engine = Engine::open(options).await.context("cannot open the database")?;
    let tenant = TenantId::parse("default")?;
    // Everything that can go wrong for a reason outside comes before the key is made and shown.
    let listeners = Listeners::open(&config).await?;
    let address = listeners.address;
    let telling = match config.telemetry.clone() {
        Some(settings) => Some(telemetry::Telling::start(settings, engine.clone())?),
        None => None,
    };
    let fixtures = match &config.workflows {
        Some(folder) => seeding::register_all(&engine, &tenant, folder, config.strict).await?,
        None => Vec::new(),
    };
    agents.register(&engine, &tenant, config.strict).await?;
    if config.demo {
        demo::register(&engine, &tenant).await?;
    }
    let prepared = welcome::prepare(&engine, &tenant, &config, address).await?;
    welcome::greet(&config, address, &prepared);

    let (stop, stopping) = watch::channel(false);
    let mut worker = tokio::spawn(engine.worker().run(stopping.clone()));
    let shared = shared(&config, address, Shared::new(engine.clone(), stopping.clone()));
    let telemetry = telling.as_ref().map(|telling| telling.losses.clone());
    let app = Arc::new(Shared { outgoing, fixtures, telemetry, ..shared });
    let courier = engine.courier(Arc::new(Bodies(app.clone())));
    let mut courier = tokio::spawn(courier.run(stopping.clone()));
    let mut server = listeners.serve(app, config.connections, tls);
    tokio::select! {
        ended = &mut server => ended?,
        ended = &mut worker => bail!("the worker ended by itself, which it never should: {ended:?}"),
        ended = &mut courier => bail!("the courier ended by itself, which it never should: {ended:?}"),
        () = asked_to_stop() => {
            tracing::info!("going down: finishing what is in flight");
            stop.send_replace(true);
            if tokio::time::timeout(GRACE, server).await.is_err() {
                tracing::warn!("some requests did not end in time and are cut off");
            }
        }
    }
    stop.send_replace(true);
    let (worked, told) =
        tokio::join!(tokio::time::timeout(GRACE, worker), tokio::time::timeout(GRACE, courier));
    if worked.is_err() || told.is_err() {
        tracing::warn!("some work did not end in time; it is taken up again at the next start");
    }
    engine.close().await;
    if let Some(telling) = telling {
        telling.finish().await;
    }
    tracing::info!("stopped; what waits goes on waiting, and is there at the next start");
    Ok(())
}

/// Completes what handlers share with the settings.
fn shared(config: &Config, address: SocketAddr, defaults: Shared) -> Shared {
    let links = config.link_settings(address);
    let is_https = config.scheme() == Scheme::Https || links.public_url.starts_with("https://");
    Shared {
        rate_limit: config.rate_limit.map(|(per_second, burst)| RateLimit::new(per_second, burst)),
        reach: if is_https { Reach::Https } else { Reach::Http },
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
            tracing::info!(address = %metrics.local_addr()?, "metrics are served at an address of their own");
        }
        Ok(Self { address, main, metrics })
    }

    /// Serves on all of them. The task ends when the server goes down and its requests are answered.
    fn serve(self, app: App, limits: Limits, tls: Option<Arc<Tls>>) -> JoinHandle<()> {
        let stopping = app.stopping.clone();
        if let Some(listener) = self.metrics {
            let limits = Limits { connections: limits.connections.min(METRICS_CONNECTIONS_MAX), ..limits };
            let (router, stopping) = (metrics_router(app.clone()), stopping.clone());
            let (tls, reach, log) = (None, Reach::Http, None);
            tokio::spawn(Server { listener, router, limits, tls, reach, log, stopping }.run());
        }
        if let Some(tls) = tls.clone() {
            tokio::spawn(tls.follow_files());
        }
        let log = RequestLog::new(routes().iter().map(|route| &route.operation));
        let (listener, reach, router) = (self.main, app.reach, router(app, log.as_ref()));
        tokio::spawn(Server { listener, router, limits, tls, reach, log, stopping }.run())
    }
}

/// What the engine is opened with, in a folder that only its owner can look into.
fn options(config: &Config, agents: &Folder, webhook_outgoing: Outgoing) -> anyhow::Result<Options> {
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
        .name(name)
        .outgoing(outgoing.clone())
        .webhook_outgoing(webhook_outgoing)
        .webhooks(config.webhooks.settings())
        .conversations(config.conversations)
        .agents(agents)
        .providers(providers(config)?)
        .keep_events(config.event_retention)
        .quotas(config.quotas.engine);
    let options = config.seal.apply(options);
    match &config.ask_url {
        Some(url) => Ok(options.answerer(AnswerService::new(url, config.ask_token.as_deref(), outgoing)?)),
        None => Ok(options),
    }
}

/// Where graphs run that are not ours.
fn providers(config: &Config) -> anyhow::Result<ProviderSettings> {
    let Some(path) = &config.providers else { return Ok(ProviderSettings::default()) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read --providers {}", path.display()))?;
    let base = path.parent().unwrap_or(Path::new("."));
    ProviderSettings::parse(&text, base, config.data.join("providers"))
        .with_context(|| format!("--providers {}", path.display()))
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    let taken = matches!(&bound, Err(error) if error.kind() == std::io::ErrorKind::AddrInUse);
    bound.with_context(|| {
        let hint = match address.port().checked_add(1).filter(|_| taken) {
            Some(next) => {
                let other = SocketAddr::new(address.ip(), next);
                format!("another program is there already; choose another address, such as --listen {other}")
            }
            None => "choose another address or port with --listen".to_owned(),
        };
        format!("cannot listen on {address}; {hint}")
    })
}

async fn asked_to_stop() {
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
