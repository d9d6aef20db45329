//! A small HTTP server on loopback. It records requests and sends the replies of a test.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use holdpoint_engine::outgoing::{
    Method, Outgoing, OutgoingPolicy, OutgoingRequest, Resolver, ScriptedResolver,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

/// The reply of the server to a request.
#[derive(Clone, Debug)]
pub(crate) enum PeerReply {
    /// Sends the text and closes the connection.
    Say(String),
    /// Sends the text and keeps the connection open without further data.
    Hang(String),
    /// Waits for the notification, sends the text and closes the connection.
    When(Arc<Notify>, String),
    /// Sends the text repeatedly until the client closes the connection.
    Drip(String),
}

impl PeerReply {
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
    requests: Arc<watch::Sender<Vec<String>>>,
}

impl Peer {
    /// Starts a server with these replies. The last one is repeated.
    pub(crate) async fn with_replies(replies: impl IntoIterator<Item = PeerReply>) -> Self {
        Self::start(replies.into_iter().collect(), None).await
    }

    /// Starts a server with TLS.
    pub(crate) async fn with_tls(replies: impl IntoIterator<Item = PeerReply>, tls: TlsAcceptor) -> Self {
        Self::start(replies.into_iter().collect(), Some(tls)).await
    }

    async fn start(replies: Vec<PeerReply>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::new(watch::Sender::default()));
        let peer = Self { address, requests: requests.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, replies, requests) = (tls.clone(), replies.clone(), requests.clone());
                tokio::spawn(async move {
                    let Some(tls) = tls else { return serve(stream, replies, requests).await };
                    // A client that does not trust the certificate closes the connection.
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, replies, requests).await;
                    }
                });
            }
        });
        peer
    }

    /// Returns all requests, with head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    /// Waits until the server has this many requests.
    pub(crate) async fn wait_for_requests(&self, count: usize) {
        self.requests.subscribe().wait_for(|requests| requests.len() >= count).await.unwrap();
    }

    /// Returns the value of a header in each request.
    pub(crate) fn header(&self, name: &str) -> Vec<Option<String>> {
        self.requests().iter().map(|request| header(request, name)).collect()
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

async fn serve<S>(mut stream: S, replies: Vec<PeerReply>, requests: Arc<watch::Sender<Vec<String>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(request) = read_request(&mut stream).await else { return };
    let mut count = 0;
    requests.send_modify(|requests| {
        requests.push(request);
        count = requests.len();
    });
    // In some tests the client has closed the connection.
    let _ = match &replies[(count - 1).min(replies.len() - 1)] {
        PeerReply::Say(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            stream.shutdown().await
        }
        PeerReply::Hang(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            stream.read_to_end(&mut Vec::new()).await.map(|_| ())
        }
        PeerReply::When(signal, text) => {
            signal.notified().await;
            let _ = stream.write_all(text.as_bytes()).await;
            stream.shutdown().await
        }
        PeerReply::Drip(text) => loop {
            if let Err(error) = stream.write_all(text.as_bytes()).await {
                break Err(error);
            }
            tokio::task::yield_now().await;
        },
    };
}

/// Reads a request to the end of its body. Returns None if the connection ends earlier.
async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
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

pub(crate) fn get(url: &str) -> OutgoingRequest {
    OutgoingRequest {
        method: Method::Get,
        url: url.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: 20_000,
        body_bytes_max: 64 * 1024,
    }
}

/// Returns an outgoing client that resolves names with a script.
pub(crate) fn scripted(script: &ScriptedResolver, allow_loopback: bool) -> Outgoing {
    let resolver = Resolver::Scripted(script.clone());
    Outgoing::new(OutgoingPolicy { resolver, allow_loopback, ..OutgoingPolicy::default() })
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
