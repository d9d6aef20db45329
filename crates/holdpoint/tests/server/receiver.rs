//! An HTTP receiver for tests: records every request and sends the replies that the test has chosen.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::collector::{self, RawRequest};
use crate::harness::{Client, Server};
use crate::test_database::TestDatabase;

/// Interval between checks of a condition that has no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A request that the receiver got. Header names are in lower case.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// The reply that the receiver sent.
    pub reply: Reply,
}

impl ReceivedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    /// Returns true if the signature was made with this secret over exactly these bytes. Computes the HMAC itself.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(self.header("x-openwop-timestamp").as_bytes());
        mac.update(b".");
        mac.update(&self.body);
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.header("x-openwop-signature") == format!("sha256={hex}")
    }

    /// Returns true if the reply had a 2xx status.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.reply, Reply::Status(200..=299) | Reply::With(200..=299, _))
    }

    pub(crate) fn event_type(&self) -> &str {
        self.header("x-openwop-event-type")
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Status(u16),
    /// A status with one more header line.
    With(u16, &'static str),
    /// Sends no reply; records when the sender closes the connection.
    Hang,
    /// Closes the connection without a reply.
    HangUp,
}

/// Chooses the reply of a request for which no reply is queued.
type ChooseReply = Box<dyn FnMut(&ReceivedRequest) -> Reply + Send>;

struct ReceiverState {
    delivered: Vec<ReceivedRequest>,
    replies: VecDeque<Reply>,
    choose_reply: ChooseReply,
    hung_up: usize,
}

pub(crate) struct Receiver {
    pub url: String,
    state: Arc<(Mutex<ReceiverState>, Condvar)>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::with_reply(|_| Reply::Status(200))
    }

    /// Starts a receiver that chooses each reply by the request.
    pub(crate) fn with_reply(choose_reply: impl FnMut(&ReceivedRequest) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (delivered, replies) = (Vec::new(), VecDeque::new());
        let state = ReceiverState { delivered, replies, choose_reply: Box::new(choose_reply), hung_up: 0 };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = shared.clone();
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { url, state }
    }

    /// Queues the replies to the next requests.
    pub(crate) fn queue_replies(&self, replies: &[Reply]) {
        self.state.0.lock().unwrap().replies.extend(replies);
    }

    /// Waits until the received requests satisfy the condition.
    pub(crate) fn wait(
        &self,
        what: &str,
        enough: impl Fn(&[ReceivedRequest]) -> bool,
    ) -> Vec<ReceivedRequest> {
        self.wait_for_state(what, |state| enough(&state.delivered))
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        self.wait(&format!("{count} deliveries"), |all| all.len() >= count)
    }

    /// Waits until senders have closed this number of connections that got no reply.
    pub(crate) fn wait_for_hang_ups(&self, count: usize) {
        self.wait_for_state("the end of a connection", |state| state.hung_up >= count);
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.0.lock().unwrap().delivered.clone()
    }

    fn wait_for_state(&self, what: &str, enough: impl Fn(&ReceiverState) -> bool) -> Vec<ReceivedRequest> {
        let (state, changed) = &*self.state;
        let until = Instant::now() + Duration::from_secs(30);
        let mut state = state.lock().unwrap();
        while !enough(&state) {
            let left = until.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("timed out waiting for: {what}; {:?}", state.delivered));
            state = changed.wait_timeout(state, left).unwrap().0;
        }
        state.delivered.clone()
    }
}

fn serve(stream: &TcpStream, state: &(Mutex<ReceiverState>, Condvar)) {
    let mut reader = BufReader::new(stream);
    while let Some(mut delivered) = read(&mut reader) {
        let reply = {
            let mut state = state.0.lock().unwrap();
            delivered.reply = match state.replies.pop_front() {
                Some(reply) => reply,
                None => (state.choose_reply)(&delivered),
            };
            let reply = delivered.reply;
            state.delivered.push(delivered);
            reply
        };
        state.1.notify_all();
        let (status, more) = match reply {
            Reply::Status(status) => (status, ""),
            Reply::With(status, line) => (status, line),
            Reply::HangUp => return,
            Reply::Hang => {
                // Returns when the sender has closed the connection.
                let _ = reader.read_to_end(&mut Vec::new());
                state.0.lock().unwrap().hung_up += 1;
                state.1.notify_all();
                return;
            }
        };
        let line = if more.is_empty() { String::new() } else { format!("{more}\r\n") };
        let answer = format!("HTTP/1.1 {status} So\r\n{line}content-length: 0\r\n\r\n");
        let mut writer = stream;
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Returns `None` if the sender has closed the connection.
fn read(reader: &mut impl BufRead) -> Option<ReceivedRequest> {
    let RawRequest { path, headers, body } = collector::read(reader)?;
    Some(ReceivedRequest { path, headers, body, reply: Reply::Hang })
}

/// A webhook that the test has created.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub id: String,
    pub secret: String,
    pub shown: Value,
}

impl Hook {
    /// Creates a webhook with these members in addition to its URL. It is best-effort unless the members set `durable`.
    pub(crate) fn create(client: &Client, url: &str, more: Value) -> Self {
        let mut body = json!({"url": url, "events": ["run.completed"], "durable": false});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = client.post("/v1/webhooks", &body);
        assert_eq!(made.status, 201, "{made:?}");
        let text = |name: &str| made.body[name].as_str().unwrap().to_owned();
        Self { id: text("webhookId"), secret: text("secret"), shown: made.body }
    }

    pub(crate) fn path(&self) -> String {
        format!("/v1/webhooks/{}", self.id)
    }

    /// Returns the current state of the webhook.
    pub(crate) fn fetch(&self, client: &Client) -> Value {
        client.get(&self.path()).body
    }

    /// Polls a path of the webhook until the response matches. Webhooks have no notification to wait for.
    pub(crate) fn wait_until(&self, client: &Client, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let shown = client.get(&format!("{}{path}", self.path())).body;
            if is_it(&shown) {
                return shown;
            }
            assert!(Instant::now() < until, "{path} never matched: {shown}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Starts a server whose webhooks may call private addresses.
pub(crate) fn server_at(database: &TestDatabase, more: &[&str]) -> Server {
    database.start(&[&["--allow-private-webhooks"], more].concat())
}

/// Does the same as `server_at` with a temporary folder, which it returns.
pub(crate) fn server(more: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let flags: Vec<&str> = ["--allow-private-webhooks"].iter().chain(more).copied().collect();
    let server = Server::start_in(&folder.path().join("data"), &flags);
    (server, folder)
}
