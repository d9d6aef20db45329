//! An HTTP receiver that records every effect, and every token that is sent to the address of the attacker.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// One call that reached the receiver.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub path: String,
    pub key: String,
    pub body: Value,
}

#[derive(Default)]
struct Received {
    /// Effects by the run in the key of a tool call, else by the marker of the sequence, which every payload has.
    effects: HashMap<String, Vec<Effect>>,
    /// Tokens by the run that they were sent for.
    tokens: HashMap<String, Vec<String>>,
    /// Idempotency keys that were answered with 503 once.
    failed_once: HashSet<String>,
}

pub(crate) struct Ledger {
    pub url: String,
    received: Arc<Mutex<Received>>,
}

impl Ledger {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Received::default()));
        let shared = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let received = shared.clone();
                std::thread::spawn(move || serve(&stream, &received));
            }
        });
        Self { url, received }
    }

    /// Returns the effects of a sequence and its runs so far.
    pub(crate) fn effects<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<Effect> {
        let received = self.received.lock().unwrap();
        names.into_iter().flat_map(|name| received.effects.get(name).cloned().unwrap_or_default()).collect()
    }

    /// Returns the tokens that were sent for a run.
    pub(crate) fn tokens(&self, run: &str) -> Vec<String> {
        self.received.lock().unwrap().tokens.get(run).cloned().unwrap_or_default()
    }

    /// Returns the markers and runs that had effects, with their number.
    pub(crate) fn counts(&self) -> Vec<(String, usize)> {
        let received = self.received.lock().unwrap();
        received.effects.iter().map(|(name, effects)| (name.clone(), effects.len())).collect()
    }
}

fn serve(stream: &TcpStream, received: &Mutex<Received>) {
    let mut reader = BufReader::new(stream);
    while let Some((path, key, body)) = read(&mut reader) {
        let status = received.lock().unwrap().record(path, key, &body);
        let answer = format!("HTTP/1.1 {status} Received\r\ncontent-length: 0\r\n\r\n");
        let mut writer = stream;
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads path, `Idempotency-Key` and body of one request.
fn read(reader: &mut impl BufRead) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "idempotency-key" => key = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, key, body))
}

impl Received {
    fn record(&mut self, path: String, key: String, body: &[u8]) -> u16 {
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        if path.starts_with("/attacker") {
            let run = body["runId"].as_str().unwrap_or_default().to_owned();
            let mut found = Vec::new();
            find_tokens(&body, &mut found);
            self.tokens.entry(run).or_default().extend(found);
            return 200;
        }
        let name = match key.split(':').collect::<Vec<_>>()[..] {
            [run, _, _, _] => run.to_owned(),
            _ => body["marker"].as_str().unwrap_or("none").to_owned(),
        };
        let fails = body["flaky"] == true && self.failed_once.insert(key.clone());
        self.effects.entry(name).or_default().push(Effect { path, key, body });
        if fails { 503 } else { 200 }
    }
}

/// Collects all members whose name contains `token`.
fn find_tokens(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if name.to_lowercase().contains("token") => found.push(text.to_owned()),
                    _ => find_tokens(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| find_tokens(value, found)),
        _ => {}
    }
}
