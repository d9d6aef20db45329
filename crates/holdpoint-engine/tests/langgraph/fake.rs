//! A server in this process: threads, runs and states as the real one has them, graphs that do what a test wrote down,
//! and answers that fail as told.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::fake_world::{Step, World};

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// It is not carried out.
    Refused(u16),
    /// It is carried out, and nobody would think so.
    Broken(u16),
    /// It is carried out, and then the connection ends.
    Cut,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub url: String,
    world: Arc<watch::Sender<World>>,
}

struct Request {
    /// Method and path, without the query.
    line: String,
    headers: String,
    body: Value,
}

impl Fake {
    /// Every start and every full answer takes one step.
    pub(crate) async fn playing(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut world = World::default();
        world.steps.extend(steps);
        let fake = Self { url, world: Arc::new(watch::Sender::new(world)) };
        let serving = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let fake = serving.clone();
                tokio::spawn(async move { fake.converse(stream).await });
            }
        });
        fake
    }

    pub(crate) fn settings(&self) -> Value {
        json!({ "url": self.url, "waitMs": 30_000, "outageMs": 1 })
    }

    pub(crate) fn settings_with(&self, member: &str, value: Value) -> Value {
        let mut settings = self.settings();
        settings[member] = value;
        settings
    }

    /// The next request whose line ends so fails.
    pub(crate) fn fail(&self, line: &str, fault: Fault) {
        self.change(|world| world.faults.push((line.to_owned(), fault)));
    }

    /// Lets the run go on that hangs.
    pub(crate) fn release(&self) {
        self.change(World::release);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        self.world.send_modify(change);
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.world.borrow())
    }

    /// How often something was asked that ends so.
    pub(crate) fn heard(&self, line: &str) -> usize {
        self.look(|world| world.heard.iter().filter(|heard| heard.ends_with(line)).count())
    }

    pub(crate) async fn heard_times(&self, line: &str, count: usize) {
        let times = |world: &World| world.heard.iter().filter(|heard| heard.ends_with(line)).count();
        self.world.subscribe().wait_for(|world| times(world) >= count).await.unwrap();
    }

    async fn converse(&self, mut stream: TcpStream) {
        let Some(request) = listen(&mut stream).await else { return };
        let mut fault = None;
        let mut token = None;
        self.change(|world| {
            // Names of threads and runs are nothing that tests know.
            let line = world.in_short(&request.line);
            let found = world.faults.iter().position(|(wanted, _)| line.ends_with(wanted.as_str()));
            fault = found.map(|at| world.faults.remove(at).1);
            world.heard.push(line);
            token.clone_from(&world.token);
        });
        let stranger = token.is_some_and(|token| !request.headers.contains(&token));
        let (status, body) = match fault {
            _ if stranger => (401, json!({ "detail": "who are you?" })),
            Some(Fault::Refused(status)) => (status, json!({ "detail": format!("no, says {}", self.url) })),
            Some(Fault::Broken(status)) => (status, self.carried_out(&request).await.1),
            Some(Fault::Cut) => {
                self.carried_out(&request).await;
                return;
            }
            None => self.carried_out(&request).await,
        };
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        // Whoever asked may have gone.
        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        let _ = stream.shutdown().await;
    }

    async fn carried_out(&self, request: &Request) -> (u16, Value) {
        if let Some(rest) = request.line.strip_suffix("/join") {
            let run = rest.rsplit('/').next().unwrap().to_owned();
            let mut world = self.world.subscribe();
            // As the real one it says nothing of how it ended.
            world.wait_for(|world| !world.is_at_work(&run)).await.unwrap();
            return (200, json!({ "whatever": "values" }));
        }
        let mut answer = (500, json!({}));
        self.change(|world| answer = world.answer(&request.line, &request.body));
        answer
    }
}

async fn listen(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 8192];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?.split('?').next()?);
        let body = serde_json::from_str(body).unwrap_or_default();
        return Some(Request { line: format!("{method} {path}"), headers: head.to_owned(), body });
    }
}
