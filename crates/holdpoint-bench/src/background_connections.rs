//! Idle and slow connections that stay open during a benchmark.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Failure, ReportFields};

/// Time between two bytes of a slow request.
const BYTE_EVERY: Duration = Duration::from_millis(500);
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: bench\r\n\r\n";

/// Open connections that send little or no data. Dropping the value closes them.
pub(super) struct BackgroundConnections {
    _tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    idle: AtomicU64,
    slow: AtomicU64,
    closed: AtomicU64,
}

impl BackgroundConnections {
    /// Opens the connections. Returns after the server has responded once on each idle one.
    pub(super) async fn open(server: &str, idle: u32, slow: u32) -> Result<Self, Failure> {
        if server.starts_with("https://") && idle + slow > 0 {
            return Err(Failure::usage("--idle and --slow require an http server"));
        }
        let address = server.trim_start_matches("http://").to_owned();
        let (mut tasks, counts) = (JoinSet::new(), Arc::<Counts>::default());
        for at in 0..idle {
            let connection = open_and_request(&address).await.map_err(|error| {
                Failure::broken(format!("cannot open connection {at} of {idle}: {error}"))
            })?;
            tasks.spawn(keep_open(connection, counts.clone()));
        }
        for _ in 0..slow {
            tasks.spawn(send_slowly(address.clone(), counts.clone()));
        }
        Ok(Self { _tasks: tasks, counts })
    }

    /// Adds the connections that are open now, if there were any.
    pub(super) fn report(&self, fields: ReportFields, [idle_max, slow_max]: [u32; 2]) -> ReportFields {
        if idle_max + slow_max == 0 {
            return fields;
        }
        let Counts { idle, slow, closed } = &*self.counts;
        let [idle, slow, closed] = [idle, slow, closed].map(|count| count.load(Ordering::Relaxed));
        let counts =
            ReportFields::default().member("idle", idle).member("slow", slow).member("slowClosed", closed);
        fields
            .member("connections", counts)
            .line("idle connections", format!("{idle} of {idle_max} open at the end"))
            .line("slow clients", format!("{slow} of {slow_max}, closed {closed} times"))
    }
}

/// Opens a connection, sends one request and reads the response, so that the server keeps the connection alive.
async fn open_and_request(address: &str) -> std::io::Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(REQUEST).await?;
    let read = connection.read(&mut [0; 4096]).await?;
    if read == 0 { Err(std::io::ErrorKind::ConnectionReset.into()) } else { Ok(connection) }
}

async fn keep_open(mut connection: TcpStream, counts: Arc<Counts>) {
    counts.idle.fetch_add(1, Ordering::Relaxed);
    // Returns when the server closes the connection.
    let _ = connection.read(&mut [0; 64]).await;
    counts.idle.fetch_sub(1, Ordering::Relaxed);
}

async fn send_slowly(address: String, counts: Arc<Counts>) {
    loop {
        if let Ok(mut connection) = TcpStream::connect(&address).await {
            counts.slow.fetch_add(1, Ordering::Relaxed);
            send_endless_header(&mut connection).await;
            counts.slow.fetch_sub(1, Ordering::Relaxed);
            counts.closed.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(BYTE_EVERY).await;
    }
}

/// Sends a header that never ends, until the server closes the connection.
async fn send_endless_header(connection: &mut TcpStream) {
    let (mut from, mut to) = connection.split();
    let send = async {
        let endless = REQUEST[..REQUEST.len() - 2].iter().chain(std::iter::repeat(&b'x'));
        for byte in endless {
            if to.write_all(std::slice::from_ref(byte)).await.is_err() {
                return;
            }
            tokio::time::sleep(BYTE_EVERY).await;
        }
    };
    let mut response = [0; 256];
    let closed = async { while from.read(&mut response).await.is_ok_and(|read| read > 0) {} };
    tokio::select! {
        () = send => {}
        () = closed => {}
    }
}
