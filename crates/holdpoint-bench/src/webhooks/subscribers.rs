//! Subscribers of the benchmark. They run in a separate thread, so that the measuring client does not wait for them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::oneshot;

use crate::Failure;
use crate::scratch::{failed, free_address};

/// One in this many deliveries is kept, so that its signature is checked after the measurement.
const SAMPLE: usize = 16;

#[derive(Clone, Copy)]
pub(super) enum ReceiverKind {
    /// Accepts every delivery.
    Accepting,
    /// Accepts connections and never responds.
    Silent,
    /// Refuses connections.
    Refusing,
}

pub(super) struct Subscribers {
    /// In the order of [`ReceiverKind`].
    addresses: [SocketAddr; 3],
    arrivals: Arc<Mutex<ReceivedDeliveries>>,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// The deliveries of an interval.
#[derive(Default)]
pub(super) struct ReceivedDeliveries {
    /// Hashes of webhook and body.
    seen: HashSet<u64>,
    pub(super) doubled: usize,
    pub(super) last: Option<Instant>,
    pub(super) sample: Vec<(HeaderMap, Bytes)>,
}

impl Subscribers {
    pub(super) fn start() -> Result<Self, Failure> {
        let ((accepting_at, accepting), (silent_at, silent)) = (listen()?, listen()?);
        let (stop, stopped) = oneshot::channel();
        let arrivals: Arc<Mutex<ReceivedDeliveries>> = Arc::default();
        let addresses = [accepting_at, silent_at, free_address()?];
        let subscribers = Self { addresses, arrivals: arrivals.clone(), _stop: stop };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("cannot start the subscribers", &error))?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    result = accept(accepting, arrivals) => result,
                    result = keep_silent(silent) => result,
                    _ = stopped => Ok(()),
                }
                .unwrap_or_else(|error| eprintln!("the subscriber of the benchmark stopped: {error}"));
            });
        });
        Ok(subscribers)
    }

    pub(super) fn url(&self, receiver: ReceiverKind) -> String {
        format!("http://{}/hooks", self.addresses[receiver as usize])
    }

    /// Returns the number of deliveries since the last call of `take`, and the time of the last one.
    pub(super) fn so_far(&self) -> (usize, Option<Instant>) {
        let arrivals = lock(&self.arrivals);
        (arrivals.count(), arrivals.last)
    }

    /// Returns the deliveries since the last call.
    pub(super) fn take(&self) -> ReceivedDeliveries {
        std::mem::take(&mut *lock(&self.arrivals))
    }
}

impl ReceivedDeliveries {
    /// Returns the number of deliveries without repetitions.
    pub(super) fn count(&self) -> usize {
        self.seen.len()
    }

    fn add(&mut self, headers: HeaderMap, body: Bytes) {
        self.last = Some(Instant::now());
        let mut hasher = DefaultHasher::new();
        headers.get("x-openwop-webhook-id").map(HeaderValue::as_bytes).hash(&mut hasher);
        body.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            self.doubled += 1;
        }
        if self.seen.len() % SAMPLE == 1 {
            self.sample.push((headers, body));
        }
    }
}

fn lock(arrivals: &Mutex<ReceivedDeliveries>) -> MutexGuard<'_, ReceivedDeliveries> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen() -> Result<(SocketAddr, TcpListener), Failure> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    bound.map_err(|error| failed("cannot listen for deliveries", &error))
}

async fn accept(listener: TcpListener, arrivals: Arc<Mutex<ReceivedDeliveries>>) -> std::io::Result<()> {
    let record =
        async |State(arrivals): State<Arc<Mutex<ReceivedDeliveries>>>, headers: HeaderMap, body: Bytes| {
            lock(&arrivals).add(headers, body);
            StatusCode::NO_CONTENT
        };
    let router = Router::new().fallback(record).with_state(arrivals);
    axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await
}

/// Accepts connections and reads until the other side closes them.
async fn keep_silent(listener: TcpListener) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
    }
}
