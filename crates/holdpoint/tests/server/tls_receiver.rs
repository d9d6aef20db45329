//! A webhook receiver behind TLS with a correct or hostile behavior. It records connections and whether the sender
//! closed them.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Certificates;
use crate::collector::{self, RawRequest};
use crate::receiver::{ReceivedRequest, Reply};

/// Text in every response of a hostile receiver. The server must not store or log it.
pub(crate) const CANARY: &str = "canary-of-an-answer-77f3";
pub(crate) const LARGE: usize = 20 * 1024 * 1024;
const WAIT_LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsBehavior {
    /// Accepts the request.
    Good,
    /// Accepts the connection and does not send.
    NoHandshake,
    /// Speaks HTTP where TLS is expected.
    NoTls,
    /// Resets the connection in the middle of the handshake.
    ResetsTheHandshake,
    /// Resets the connection when the request arrives.
    Resets,
    /// Closes its half of the connection without a response.
    ClosesItsHalf,
    /// Closes its half in the middle of a response with a content length.
    ClosesItsHalfEarly,
    /// Ends a response without a content length without a TLS close notification, as an attacker on the line could.
    CutsOff,
    /// Starts a response and never completes it.
    NeverEnds,
    /// Sends 20 MB with a content length.
    LargeAndSaysSo,
    /// Sends 20 MB without a content length.
    Large,
    Endless,
    EndlessHead,
    /// Sends interim responses without end.
    Storm,
    /// Sends text that is not HTTP.
    Nonsense,
}

#[derive(Debug, Default)]
struct TlsReceiverState {
    delivered: Vec<ReceivedRequest>,
    /// The server name of each handshake.
    server_names: Vec<Option<String>>,
    /// Connections that were opened.
    opened: usize,
    /// Connections that the sender closed.
    closed: usize,
    /// Bytes of large responses that were read by the sender or are in buffers.
    bytes_written: usize,
}

type Shared = Arc<(Mutex<TlsReceiverState>, Condvar)>;

pub(crate) struct TlsReceiver {
    pub port: u16,
    seen: Shared,
}

impl TlsReceiver {
    pub(crate) fn start(certificates: &Certificates, name: &str, behavior: TlsBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tls, seen) = (config(certificates, name), Shared::default());
        let shared = seen.clone();
        std::thread::spawn(move || {
            for tcp in listener.incoming().map_while(Result::ok) {
                let (tls, seen) = (tls.clone(), shared.clone());
                update(&seen, |seen| seen.opened += 1);
                std::thread::spawn(move || {
                    tcp.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
                    tcp.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
                    if serve(tcp, tls, behavior, &seen) {
                        update(&seen, |seen| seen.closed += 1);
                    }
                });
            }
        });
        Self { port, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Waits until at least this number of connections was opened and the sender has closed all of them.
    pub(crate) fn wait_for_closed_connections(&self, at_least: usize) {
        self.wait_for_state("the end of connections", |seen| {
            seen.opened >= at_least && seen.closed == seen.opened
        });
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        self.wait_for_state("deliveries", |seen| seen.delivered.len() >= count);
        self.requests()
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.0.lock().unwrap().delivered.clone()
    }

    pub(crate) fn server_names(&self) -> Vec<Option<String>> {
        self.seen.0.lock().unwrap().server_names.clone()
    }

    pub(crate) fn bytes_written(&self) -> usize {
        self.seen.0.lock().unwrap().bytes_written
    }

    fn wait_for_state(&self, what: &str, enough: impl Fn(&TlsReceiverState) -> bool) {
        let until = Instant::now() + WAIT_LIMIT;
        let mut seen = self.seen.0.lock().unwrap();
        while !enough(&seen) {
            let left = until.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("timed out waiting for: {what}; {seen:?}"));
            seen = self.seen.1.wait_timeout(seen, left).unwrap().0;
        }
    }
}

fn update(seen: &Shared, change: impl FnOnce(&mut TlsReceiverState)) {
    change(&mut seen.0.lock().unwrap());
    seen.1.notify_all();
}

fn config(certificates: &Certificates, name: &str) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificates.certificate(name)).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.key(name)).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(builder.with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap())
}

/// Serves one connection. Returns true if the sender closed it or this behavior closes it itself.
fn serve(mut tcp: TcpStream, tls: Arc<ServerConfig>, behavior: TlsBehavior, seen: &Shared) -> bool {
    match behavior {
        TlsBehavior::NoHandshake => return is_ended(&mut tcp),
        TlsBehavior::NoTls => {
            let said = format!("HTTP/1.1 200 {CANARY}\r\ncontent-length: 24\r\n\r\n{CANARY}");
            return tcp.write_all(said.as_bytes()).is_ok() && is_ended(&mut tcp);
        }
        // Closing a socket with unread bytes resets the connection.
        TlsBehavior::ResetsTheHandshake => return tcp.peek(&mut [0]).is_ok(),
        _ => {}
    }
    let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), tcp);
    if stream.conn.complete_io(&mut ByteReader(&mut stream.sock)).is_err() {
        return true;
    }
    let name = stream.conn.server_name().map(str::to_owned);
    update(seen, |seen| seen.server_names.push(name));
    if behavior == TlsBehavior::Resets {
        return stream.sock.peek(&mut [0]).is_ok();
    }
    let mut reader = BufReader::new(stream);
    let Some(RawRequest { path, headers, body }) = collector::read(&mut reader) else { return true };
    let reply = if behavior == TlsBehavior::Good { Reply::Status(204) } else { Reply::HangUp };
    update(seen, |seen| seen.delivered.push(ReceivedRequest { path, headers, body, reply }));
    let mut stream = reader.into_inner();
    // The sender may have closed the connection already.
    let _ = respond(&mut stream, behavior, seen);
    is_ended(&mut stream.sock)
}

fn respond(
    stream: &mut StreamOwned<ServerConnection, TcpStream>,
    behavior: TlsBehavior,
    seen: &Shared,
) -> io::Result<()> {
    let head = |more: &str| format!("HTTP/1.1 200 {CANARY}\r\nx-canary: {CANARY}\r\n{more}");
    let mut say = |text: &str| stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    match behavior {
        TlsBehavior::Good => say("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
        TlsBehavior::ClosesItsHalf => stream.sock.shutdown(Shutdown::Write),
        TlsBehavior::ClosesItsHalfEarly => {
            say(&head(&format!("content-length: 1000\r\n\r\n{CANARY}")))?;
            stream.conn.send_close_notify();
            stream.conn.complete_io(&mut stream.sock)?;
            stream.sock.shutdown(Shutdown::Write)
        }
        TlsBehavior::CutsOff => {
            say(&head(&format!("connection: close\r\n\r\n{CANARY}")))?;
            stream.sock.shutdown(Shutdown::Write)
        }
        TlsBehavior::NeverEnds => say(&head(&format!("content-length: 1000\r\n\r\n{CANARY}"))),
        TlsBehavior::LargeAndSaysSo => {
            say(&head(&format!("content-length: {LARGE}\r\n\r\n")))?;
            write_repeatedly(stream, CANARY, LARGE, seen)
        }
        TlsBehavior::Large => {
            say(&head("connection: close\r\n\r\n"))?;
            write_repeatedly(stream, CANARY, LARGE, seen)
        }
        TlsBehavior::Endless => {
            say(&head("transfer-encoding: chunked\r\n\r\n"))?;
            write_repeatedly(stream, &format!("18\r\n{CANARY}\r\n"), usize::MAX, seen)
        }
        TlsBehavior::EndlessHead => {
            say(&head(""))?;
            write_repeatedly(stream, &format!("x-more: {CANARY}\r\n"), usize::MAX, seen)
        }
        TlsBehavior::Storm => {
            let interim = format!("HTTP/1.1 103 Early Hints\r\nlink: <{CANARY}>\r\n\r\n");
            write_repeatedly(stream, &interim, usize::MAX, seen)
        }
        TlsBehavior::Nonsense => say(&format!("220 {CANARY} ESMTP\r\n")),
        TlsBehavior::NoHandshake
        | TlsBehavior::NoTls
        | TlsBehavior::ResetsTheHandshake
        | TlsBehavior::Resets => {
            unreachable!("ended before there was a request")
        }
    }
}

/// Writes a text again and again until `most` bytes are written or the sender stops reading.
fn write_repeatedly(stream: &mut impl Write, text: &str, most: usize, seen: &Shared) -> io::Result<()> {
    let portion = text.repeat(16 * 1024 / text.len());
    let mut written = 0;
    while written < most {
        stream.write_all(portion.as_bytes())?;
        written += portion.len();
        update(seen, |seen| seen.bytes_written += portion.len());
    }
    stream.flush()
}

/// Reads one byte at a time, so that bytes after the handshake stay unread.
struct ByteReader<'a>(&'a mut TcpStream);

impl Read for ByteReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let one = bytes.len().min(1);
        self.0.read(&mut bytes[..one])
    }
}

impl Write for ByteReader<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits until the sender closes or resets the connection. Returns false on a read timeout.
fn is_ended(tcp: &mut TcpStream) -> bool {
    let mut rest = [0; 4096];
    loop {
        match tcp.read(&mut rest) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            }
        }
    }
}

/// Creates certificates of a server on this machine: a valid one, and others with one defect each.
pub(crate) fn certificates(folder: PathBuf) -> Certificates {
    let made = Certificates::new(folder);
    made.authority("ours");
    made.authority("theirs");
    made.signed("good", "server", "ours");
    made.signed("of-another-name", "elsewhere", "ours");
    made.signed("of-a-stranger", "server", "theirs");
    made.signed("for-clients", "client", "ours");
    made.expired("expired", "ours");
    made
}
