//! Subscribers for the while, in a thread of their own: one that takes whatever is sent, one that accepts and never
//! answers, and one that is not there. The client that is measured with does not wait for them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::oneshot;

use super::super::scratch::{failed, free_address};
use holdpoint_cli::failure::Failure;

/// One in so many deliveries is kept, to look at its signature when nothing is measured.
const SAMPLE: usize = 16;

/// Which of them a subscription is for.
#[derive(Clone, Copy)]
pub(super) enum Whom {
    Taking,
    Silent,
    Gone,
}

pub(super) struct Subscribers {
    taking: SocketAddr,
    silent: SocketAddr,
    gone: SocketAddr,
    heard: Arc<Mutex<Heard>>,
    /// The thread ends when nobody holds the other end any more.
    _held: oneshot::Sender<()>,
}

/// What came since the last look.
#[derive(Default)]
pub(super) struct Heard {
    /// Each webhook and event once.
    seen: HashSet<u64>,
    /// What came more than once.
    pub(super) doubled: usize,
    pub(super) last: Option<Instant>,
    pub(super) sample: Vec<Kept>,
}

/// A delivery as it came in; names of headers in lower case.
pub(super) struct Kept {
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Subscribers {
    pub(super) fn start() -> Result<Self, Failure> {
        let (taking, silent) = (listener()?, listener()?);
        let at = |listener: &TcpListener| {
            listener.local_addr().map_err(|error| failed("a port has no address", &error))
        };
        let (held, ended) = oneshot::channel();
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let subscribers = Self {
            taking: at(&taking)?,
            silent: at(&silent)?,
            gone: free_address()?,
            heard: heard.clone(),
            _held: held,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("cannot start the subscribers", &error))?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    result = take(taking, heard) => result,
                    result = keep_silent(silent) => result,
                    _ = ended => Ok(()),
                }
                .unwrap_or_else(|error| eprintln!("the benchmark's own subscriber stopped: {error}"));
            });
        });
        Ok(subscribers)
    }

    pub(super) fn url(&self, whom: Whom) -> String {
        let address = match whom {
            Whom::Taking => self.taking,
            Whom::Silent => self.silent,
            Whom::Gone => self.gone,
        };
        format!("http://{address}/hooks")
    }

    /// How much came since the last look, and when the last of it.
    pub(super) fn so_far(&self) -> (usize, Option<Instant>) {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        (heard.arrived(), heard.last)
    }

    /// What came since the last look; what comes from now on is for the next.
    pub(super) fn look(&self) -> Heard {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Heard {
    pub(super) fn arrived(&self) -> usize {
        self.seen.len()
    }

    fn add(&mut self, headers: &HeaderMap, body: &Bytes) {
        self.last = Some(Instant::now());
        let mut hasher = DefaultHasher::new();
        headers.get("x-openwop-webhook-id").map(HeaderValue::as_bytes).hash(&mut hasher);
        body.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            self.doubled += 1;
        }
        if self.seen.len() % SAMPLE == 1 {
            let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
            let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
            self.sample.push(Kept { headers: headers.collect(), body: body.clone() });
        }
    }
}

fn listener() -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| failed("cannot listen for deliveries", &error))
}

async fn take(listener: TcpListener, heard: Arc<Mutex<Heard>>) -> std::io::Result<()> {
    let note = async |State(heard): State<Arc<Mutex<Heard>>>, headers: HeaderMap, body: Bytes| {
        heard.lock().unwrap_or_else(PoisonError::into_inner).add(&headers, &body);
        StatusCode::NO_CONTENT
    };
    let router = Router::new().fallback(note).with_state(heard);
    axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await
}

/// Accepts and holds on to every connection until the other side has enough of it.
async fn keep_silent(listener: TcpListener) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut unheard = [0; 4096];
            while stream.readable().await.is_ok() {
                match stream.try_read(&mut unheard) {
                    Ok(0) => return,
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                    Ok(_) | Err(_) => {}
                }
            }
        });
    }
}
