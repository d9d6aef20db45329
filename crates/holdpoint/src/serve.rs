//! `holdpoint serve`: opens the engine, prepares the first start, listens, and goes down without losing anything.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use holdpoint_core::TenantId;
use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::outgoing::Outgoing;
use holdpoint_engine::{Engine, Options, ProviderSettings};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::agents::folder::{self, Folder};
use crate::answering::AnswerService;
use crate::app::{Shared, router};
use crate::auth::{FailureLimit, RateLimit};
use crate::config::Config;
use crate::links::{Links, Peer};
use crate::openwop::webhooks::Bodies;
use crate::{demo, private_files, seeding, telemetry, welcome};

/// How long requests in flight may take once the server is going down.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) async fn serve(config: Config, customize: impl FnOnce(Options) -> Options) -> anyhow::Result<()> {
    config.outgoing.tell();
    config.webhooks.tell();
    let outgoing = config.outgoing.for_webhooks(config.webhooks.allow_private);
    // A server with node types of its own may have its own idea of outgoing calls as well.
    let agents = config.agents.as_deref().map(folder::read).transpose()?.unwrap_or_default();
    let options = customize(options(&config, &agents, outgoing.clone())?);
    let engine = Engine::open(options).await.context("cannot open the database")?;
    let tenant = TenantId::parse("default")?;
    // Everything that can go wrong for a reason outside comes before the key is made and shown.
    let listener = listen(config.listen).await?;
    let address = listener.local_addr()?;
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
    let rate_limit = config.rate_limit.map(|(per_second, burst)| RateLimit::new(per_second, burst));
    let failures = FailureLimit::new(config.access.auth_failure_limit);
    let shared = Shared { failures, ..Shared::new(engine.clone(), stopping.clone()) };
    let telemetry = telling.as_ref().map(|telling| telling.losses.clone());
    let links = Links::new(config.links.at(address));
    let cors_origins = config.cors_origins.clone();
    let app = Arc::new(Shared { rate_limit, links, outgoing, fixtures, telemetry, cors_origins, ..shared });
    let courier = engine.courier(Arc::new(Bodies(app.clone())));
    let mut courier = tokio::spawn(courier.run(stopping.clone()));
    let mut draining = stopping;
    let service = router(app).into_make_service_with_connect_info::<Peer>();
    let server = axum::serve(ListenerNoDelay(listener), service).with_graceful_shutdown(async move {
        // An error means that the sender has gone, which is as good as a signal.
        let _ = draining.wait_for(|stopping| *stopping).await;
    });
    let mut server = tokio::spawn(server.into_future());
    tokio::select! {
        ended = &mut server => ended??,
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
        .keep_events(config.event_retention);
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

/// Sends small answers at once instead of waiting for more to send.
struct ListenerNoDelay(TcpListener);

impl axum::serve::Listener for ListenerNoDelay {
    type Io = tokio::net::TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "answers on this connection may be a little late");
        }
        (stream, address)
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, ListenerNoDelay>> for Peer {
    fn connect_info(stream: IncomingStream<'_, ListenerNoDelay>) -> Self {
        Self(*stream.remote_addr())
    }
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
