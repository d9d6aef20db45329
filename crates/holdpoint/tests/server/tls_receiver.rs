//! A subscriber behind TLS that behaves as well or as badly as a test wants, and remembers who came and whether they went
//! away again.

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
use crate::collector::{self, Sent};
use crate::receiver::{Delivered, Reply};

/// In everything that hostile receivers say. Nothing of it may be kept anywhere.
pub(crate) const CANARY: &str = "canary-of-an-answer-77f3";
pub(crate) const LARGE: usize = 20 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes it.
    Good,
    /// Opens the connection and says nothing at all.
    NoHandshake,
    /// Speaks HTTP where TLS is expected.
    NoTls,
    /// Resets the connection in the middle of the handshake.
    ResetsTheHandshake,
    /// Resets it when the request comes.
    Resets,
    /// Closes its half without an answer.
    ClosesItsHalf,
    /// Closes its half in the middle of an answer that has a length.
    ClosesItsHalfEarly,
    /// Ends an answer without a length in a way that anybody on the line could have.
    CutsOff,
    /// Begins an answer and never ends it.
    NeverEnds,
    /// 20 MB, as it says before.
    LargeAndSaysSo,
    /// 20 MB that nothing announces.
    Large,
    Endless,
    EndlessHead,
    /// Interim answers for ever.
    Storm,
    /// No answer at all.
    Nonsense,
}

#[derive(Debug, Default)]
struct Seen {
    delivered: Vec<Delivered>,
    /// The name that each was asked for in a handshake.
    asked_for: Vec<Option<String>>,
    came: usize,
    gone: usize,
    /// Bytes of large answers that somebody took, or that are in buffers.
    taken: usize,
}

type Shared = Arc<(Mutex<Seen>, Condvar)>;

pub(crate) struct TlsReceiver {
    pub port: u16,
    seen: Shared,
}

impl TlsReceiver {
    pub(crate) fn start(certificates: &Certificates, name: &str, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tls, seen) = (config(certificates, name), Shared::default());
        let shared = seen.clone();
        std::thread::spawn(move || {
            for tcp in listener.incoming().map_while(Result::ok) {
                let (tls, seen) = (tls.clone(), shared.clone());
                note(&seen, |seen| seen.came += 1);
                std::thread::spawn(move || {
                    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
                    tcp.set_write_timeout(Some(PATIENCE)).unwrap();
                    if serve(tcp, tls, manner, &seen) {
                        note(&seen, |seen| seen.gone += 1);
                    }
                });
            }
        });
        Self { port, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Waits until so many connections have come, and all of them have been ended.
    pub(crate) fn wait_gone(&self, at_least: usize) {
        self.until("the end of connections", |seen| seen.came >= at_least && seen.gone == seen.came);
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<Delivered> {
        self.until("deliveries", |seen| seen.delivered.len() >= count);
        self.so_far()
    }

    pub(crate) fn so_far(&self) -> Vec<Delivered> {
        self.seen.0.lock().unwrap().delivered.clone()
    }

    pub(crate) fn asked_for(&self) -> Vec<Option<String>> {
        self.seen.0.lock().unwrap().asked_for.clone()
    }

    pub(crate) fn taken(&self) -> usize {
        self.seen.0.lock().unwrap().taken
    }

    fn until(&self, what: &str, enough: impl Fn(&Seen) -> bool) {
        let until = Instant::now() + PATIENCE;
        let mut seen = self.seen.0.lock().unwrap();
        while !enough(&seen) {
            let left = until.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("never came: {what}; {seen:?}"));
            seen = self.seen.1.wait_timeout(seen, left).unwrap().0;
        }
    }
}

fn note(seen: &Shared, change: impl FnOnce(&mut Seen)) {
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

/// Whether the other side ended the connection, where it is not this one that did.
fn serve(mut tcp: TcpStream, tls: Arc<ServerConfig>, manner: Manner, seen: &Shared) -> bool {
    match manner {
        Manner::NoHandshake => return is_ended(&mut tcp),
        Manner::NoTls => {
            let said = format!("HTTP/1.1 200 {CANARY}\r\ncontent-length: 24\r\n\r\n{CANARY}");
            return tcp.write_all(said.as_bytes()).is_ok() && is_ended(&mut tcp);
        }
        // To close a socket with bytes that nobody has read is to reset its connection.
        Manner::ResetsTheHandshake => return tcp.peek(&mut [0]).is_ok(),
        _ => {}
    }
    let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), tcp);
    if stream.conn.complete_io(&mut Frugal(&mut stream.sock)).is_err() {
        return true;
    }
    let name = stream.conn.server_name().map(str::to_owned);
    note(seen, |seen| seen.asked_for.push(name));
    if manner == Manner::Resets {
        return stream.sock.peek(&mut [0]).is_ok();
    }
    let mut reader = BufReader::new(stream);
    let Some(Sent { path, headers, body }) = collector::read(&mut reader) else { return true };
    let reply = if manner == Manner::Good { Reply::Status(204) } else { Reply::HangUp };
    note(seen, |seen| seen.delivered.push(Delivered { path, headers, body, reply }));
    let mut stream = reader.into_inner();
    // Whoever called may have gone already.
    let _ = answer(&mut stream, manner, seen);
    is_ended(&mut stream.sock)
}

fn answer(
    stream: &mut StreamOwned<ServerConnection, TcpStream>,
    manner: Manner,
    seen: &Shared,
) -> io::Result<()> {
    let head = |more: &str| format!("HTTP/1.1 200 {CANARY}\r\nx-canary: {CANARY}\r\n{more}");
    let mut say = |text: &str| stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    match manner {
        Manner::Good => say("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
        Manner::ClosesItsHalf => stream.sock.shutdown(Shutdown::Write),
        Manner::ClosesItsHalfEarly => {
            say(&head(&format!("content-length: 1000\r\n\r\n{CANARY}")))?;
            stream.conn.send_close_notify();
            stream.conn.complete_io(&mut stream.sock)?;
            stream.sock.shutdown(Shutdown::Write)
        }
        Manner::CutsOff => {
            say(&head(&format!("connection: close\r\n\r\n{CANARY}")))?;
            stream.sock.shutdown(Shutdown::Write)
        }
        Manner::NeverEnds => say(&head(&format!("content-length: 1000\r\n\r\n{CANARY}"))),
        Manner::LargeAndSaysSo => {
            say(&head(&format!("content-length: {LARGE}\r\n\r\n")))?;
            pour(stream, CANARY, LARGE, seen)
        }
        Manner::Large => {
            say(&head("connection: close\r\n\r\n"))?;
            pour(stream, CANARY, LARGE, seen)
        }
        Manner::Endless => {
            say(&head("transfer-encoding: chunked\r\n\r\n"))?;
            pour(stream, &format!("18\r\n{CANARY}\r\n"), usize::MAX, seen)
        }
        Manner::EndlessHead => {
            say(&head(""))?;
            pour(stream, &format!("x-more: {CANARY}\r\n"), usize::MAX, seen)
        }
        Manner::Storm => {
            let interim = format!("HTTP/1.1 103 Early Hints\r\nlink: <{CANARY}>\r\n\r\n");
            pour(stream, &interim, usize::MAX, seen)
        }
        Manner::Nonsense => say(&format!("220 {CANARY} ESMTP\r\n")),
        Manner::NoHandshake | Manner::NoTls | Manner::ResetsTheHandshake | Manner::Resets => {
            unreachable!("ended before there was a request")
        }
    }
}

/// The same over and over, until it is enough or nobody takes it any more.
fn pour(stream: &mut impl Write, text: &str, most: usize, seen: &Shared) -> io::Result<()> {
    let portion = text.repeat(16 * 1024 / text.len());
    let mut poured = 0;
    while poured < most {
        stream.write_all(portion.as_bytes())?;
        poured += portion.len();
        note(seen, |seen| seen.taken += portion.len());
    }
    stream.flush()
}

/// Reads no byte more than it needs, so that what comes behind a handshake stays unread.
struct Frugal<'a>(&'a mut TcpStream);

impl Read for Frugal<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let one = bytes.len().min(1);
        self.0.read(&mut bytes[..one])
    }
}

impl Write for Frugal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits for the other side to close, or to reset, and not only for its patience to end.
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

/// Certificates of a server on this machine: a good one, and others that are each wrong in one way.
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
