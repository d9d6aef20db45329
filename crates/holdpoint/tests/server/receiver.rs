//! A subscriber for tests: takes what is sent to it, remembers every byte, and answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::collector::{self, Sent};
use crate::harness::{Client, Server};
use crate::place::Place;

/// How often a condition is looked at that nobody tells of.
const LOOK: Duration = Duration::from_millis(5);

/// One request as it came in; names of headers in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// What it was answered.
    pub reply: Reply,
}

impl Delivered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    /// Whether the signature is that of this secret over these very bytes, worked out here.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(self.header("x-openwop-timestamp").as_bytes());
        mac.update(b".");
        mac.update(&self.body);
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.header("x-openwop-signature") == format!("sha256={hex}")
    }

    /// Whether it was answered as somebody does who has it now.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self.reply, Reply::Status(200..=299) | Reply::With(200..=299, _))
    }

    pub(crate) fn event_type(&self) -> &str {
        self.header("x-openwop-event-type")
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reply {
    Status(u16),
    /// With a header line.
    With(u16, &'static str),
    /// Never answers; remembers when the other side goes away.
    Hang,
    /// Closes the connection without a word.
    HangUp,
}

/// What a request is answered that nothing else was said about.
type Decide = Box<dyn FnMut(&Delivered) -> Reply + Send>;

struct Heard {
    delivered: Vec<Delivered>,
    replies: VecDeque<Reply>,
    otherwise: Decide,
    hung_up: usize,
}

pub(crate) struct Receiver {
    pub url: String,
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::deciding(|_| Reply::Status(200))
    }

    /// Looks at each request before it answers.
    pub(crate) fn deciding(decide: impl FnMut(&Delivered) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (delivered, replies) = (Vec::new(), VecDeque::new());
        let heard = Heard { delivered, replies, otherwise: Box::new(decide), hung_up: 0 };
        let heard = Arc::new((Mutex::new(heard), Condvar::new()));
        let shared = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let heard = shared.clone();
                std::thread::spawn(move || serve(&stream, &heard));
            }
        });
        Self { url, heard }
    }

    /// What the next requests are answered with, whatever they are.
    pub(crate) fn answers(&self, replies: &[Reply]) {
        self.heard.0.lock().unwrap().replies.extend(replies);
    }

    /// Waits until what came in is enough.
    pub(crate) fn wait(&self, what: &str, enough: impl Fn(&[Delivered]) -> bool) -> Vec<Delivered> {
        self.until(what, |heard| enough(&heard.delivered))
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<Delivered> {
        self.wait(&format!("{count} deliveries"), |all| all.len() >= count)
    }

    /// Waits until the other side has ended so many requests that were never answered.
    pub(crate) fn wait_hung_up(&self, count: usize) {
        self.until("the end of a connection", |heard| heard.hung_up >= count);
    }

    pub(crate) fn so_far(&self) -> Vec<Delivered> {
        self.heard.0.lock().unwrap().delivered.clone()
    }

    fn until(&self, what: &str, enough: impl Fn(&Heard) -> bool) -> Vec<Delivered> {
        let (heard, news) = &*self.heard;
        let until = Instant::now() + Duration::from_secs(30);
        let mut heard = heard.lock().unwrap();
        while !enough(&heard) {
            let left = until.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("never came: {what}; {:?}", heard.delivered));
            heard = news.wait_timeout(heard, left).unwrap().0;
        }
        heard.delivered.clone()
    }
}

fn serve(stream: &TcpStream, heard: &(Mutex<Heard>, Condvar)) {
    let mut reader = BufReader::new(stream);
    while let Some(mut delivered) = read(&mut reader) {
        let reply = {
            let mut heard = heard.0.lock().unwrap();
            delivered.reply = match heard.replies.pop_front() {
                Some(reply) => reply,
                None => (heard.otherwise)(&delivered),
            };
            let reply = delivered.reply;
            heard.delivered.push(delivered);
            reply
        };
        heard.1.notify_all();
        let (status, more) = match reply {
            Reply::Status(status) => (status, ""),
            Reply::With(status, line) => (status, line),
            Reply::HangUp => return,
            Reply::Hang => {
                // Ends when the other side has gone.
                let _ = reader.read_to_end(&mut Vec::new());
                heard.0.lock().unwrap().hung_up += 1;
                heard.1.notify_all();
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

/// Nothing when the other side has gone.
fn read(reader: &mut impl BufRead) -> Option<Delivered> {
    let Sent { path, headers, body } = collector::read(reader)?;
    Some(Delivered { path, headers, body, reply: Reply::Hang })
}

/// A subscription that was just made.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub id: String,
    pub secret: String,
    pub shown: Value,
}

impl Hook {
    /// Registers one with these members beside its URL; best effort unless they say otherwise.
    pub(crate) fn add(client: &Client, url: &str, more: Value) -> Self {
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

    /// As it is now.
    pub(crate) fn now(&self, client: &Client) -> Value {
        client.get(&self.path()).body
    }

    /// Asks until what is shown under this path is as it should be. There is no news of webhooks to wait for.
    pub(crate) fn until(&self, client: &Client, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let shown = client.get(&format!("{}{path}", self.path())).body;
            if is_it(&shown) {
                return shown;
            }
            assert!(Instant::now() < until, "{path} never was as it should be: {shown}");
            std::thread::sleep(LOOK);
        }
    }
}

/// A server whose webhooks may lead to this machine.
pub(crate) fn server_at(place: &Place, more: &[&str]) -> Server {
    place.start(&[&["--allow-private-webhooks"], more].concat())
}

/// The same in a folder of its own, that goes away with it.
pub(crate) fn server(more: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let flags: Vec<&str> = ["--allow-private-webhooks"].iter().chain(more).copied().collect();
    let server = Server::start_in(&folder.path().join("data"), &flags);
    (server, folder)
}
