//! The other side of a call: a small server on loopback that keeps what it heard and says what a test tells it to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use holdpoint_engine::outgoing::{Method, Outgoing, Policy, Request, Resolver, Script};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Says this and closes.
    Say(String),
    /// Says this and then nothing more, without closing.
    Hang(String),
    /// Says this when it is told to, and closes.
    When(Arc<Notify>, String),
    /// Says this over and over, as long as somebody listens.
    Drip(String),
}

impl Reply {
    pub(crate) fn json(status: u16, body: &str) -> Self {
        let length = body.len();
        Self::Say(format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }
}

#[derive(Clone)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    heard: Arc<watch::Sender<Vec<String>>>,
}

impl Peer {
    /// The replies in their order; the last one is given for ever.
    pub(crate) async fn saying(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::listening(replies.into_iter().collect(), None).await
    }

    /// The same over TLS.
    pub(crate) async fn securely(replies: impl IntoIterator<Item = Reply>, tls: TlsAcceptor) -> Self {
        Self::listening(replies.into_iter().collect(), Some(tls)).await
    }

    async fn listening(replies: Vec<Reply>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::new(watch::Sender::default()));
        let peer = Self { address, heard: heard.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, replies, heard) = (tls.clone(), replies.clone(), heard.clone());
                tokio::spawn(async move {
                    let Some(tls) = tls else { return converse(stream, replies, heard).await };
                    // Whoever does not trust the certificate hangs up.
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, replies, heard).await;
                    }
                });
            }
        });
        peer
    }

    /// Everything that was asked, head and body.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn heard_times(&self, count: usize) {
        self.heard.subscribe().wait_for(|heard| heard.len() >= count).await.unwrap();
    }

    /// The value of a header in each request.
    pub(crate) fn header(&self, name: &str) -> Vec<Option<String>> {
        self.heard().iter().map(|request| header(request, name)).collect()
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("http://{}{rest}", self.address)
    }
}

pub(crate) fn header(request: &str, name: &str) -> Option<String> {
    let head = request.split("\r\n\r\n").next()?;
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
}

async fn converse<S>(mut stream: S, replies: Vec<Reply>, heard: Arc<watch::Sender<Vec<String>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(request) = listen(&mut stream).await else { return };
    let mut count = 0;
    heard.send_modify(|heard| {
        heard.push(request);
        count = heard.len();
    });
    // Whoever called may have gone; that is what some of the tests are about.
    let _ = match &replies[(count - 1).min(replies.len() - 1)] {
        Reply::Say(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            stream.shutdown().await
        }
        Reply::Hang(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            stream.read_to_end(&mut Vec::new()).await.map(|_| ())
        }
        Reply::When(told, text) => {
            told.notified().await;
            let _ = stream.write_all(text.as_bytes()).await;
            stream.shutdown().await
        }
        Reply::Drip(text) => loop {
            if let Err(error) = stream.write_all(text.as_bytes()).await {
                break Err(error);
            }
            tokio::task::yield_now().await;
        },
    };
}

/// A request to the end of its body, or nothing when the connection ends before.
async fn listen<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((_, body)) = text.split_once("\r\n\r\n") {
            let length = header(&text, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
    }
}

pub(crate) fn get(url: &str) -> Request {
    Request {
        method: Method::Get,
        url: url.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: 20_000,
        body_bytes_max: 64 * 1024,
    }
}

/// Calls under a script of names.
pub(crate) fn scripted(script: &Script, allow_loopback: bool) -> Outgoing {
    let resolver = Resolver::Scripted(script.clone());
    Outgoing::new(Policy { resolver, allow_loopback, ..Policy::default() })
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
