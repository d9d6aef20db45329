//! Requests and replies of the command line: one blocking client, one place that turns a bad reply into a failure.

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

pub(crate) use crate::segment::encode;

use super::connection::Settings;
use super::failure::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(30);
/// A stream is never silent for long, because the server sends keepalives.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(90);
const REPLY_BYTES_MAX: u64 = 64 << 20;
const PAGE: u32 = 100;

pub(crate) struct Client {
    settings: Settings,
    agent: Agent,
    stream_agent: Agent,
}

/// A successful reply: its text for `--json`, its value for people.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) value: Value,
    /// The server gave this answer before, to a request with the same idempotency key, and did nothing now.
    pub(crate) replayed: bool,
    text: String,
}

impl Client {
    pub(crate) fn new(settings: Settings) -> Self {
        // A proxy meant for the internet cannot reach our own machine.
        let is_local =
            ["://127.", "://localhost", "://[::1]"].iter().any(|host| settings.server.contains(host));
        let config = || {
            let builder =
                Agent::config_builder().http_status_as_error(false).timeout_connect(Some(CONNECT_TIMEOUT));
            let builder = if is_local { builder.proxy(None) } else { builder };
            match &settings.tls {
                Some(tls) => builder.tls_config(tls.clone()),
                None => builder,
            }
        };
        let agent = config().timeout_global(Some(TIMEOUT)).build().into();
        let stream_agent = config()
            .timeout_recv_response(Some(TIMEOUT))
            .timeout_per_read(Some(STREAM_SILENCE_MAX))
            .build()
            .into();
        Self { settings, agent, stream_agent }
    }

    /// Returns a URL that the server has named, with the address of the server before a mere path.
    pub(crate) fn absolute(&self, url: &str) -> String {
        if url.starts_with('/') { format!("{}{url}", self.settings.server) } else { url.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Reply, Failure> {
        self.reply("GET", path, None, &[])
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.post_with(path, body, &[])
    }

    /// With headers of its own.
    pub(crate) fn post_with(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, String)],
    ) -> Result<Reply, Failure> {
        self.reply("POST", path, Some(body.to_string()), headers)
    }

    /// Sends the text as it is, so that the server judges what the author wrote and not our reading of it.
    pub(crate) fn put(&self, path: &str, body: String) -> Result<Reply, Failure> {
        self.reply("PUT", path, Some(body), &[])
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Reply, Failure> {
        self.reply("DELETE", path, None, &[])
    }

    /// Follows `nextCursor` until `limit` items are there. `path` ends in `?` or `&`.
    pub(crate) fn list(&self, path: &str, items: &str, limit: u32) -> Result<Reply, Failure> {
        let mut page = self.get(&format!("{path}limit={}", limit.min(PAGE)))?;
        let mut all = page.take_items(items)?;
        let mut pages = 1;
        while let Some(cursor) = page.next_cursor() {
            let missing = limit.saturating_sub(u32::try_from(all.len()).unwrap_or(u32::MAX));
            if missing == 0 {
                break;
            }
            let next = format!("{path}limit={}&cursor={}", missing.min(PAGE), encode(&cursor));
            page = self.get(&next)?;
            let mut more = page.take_items(items)?;
            // A cursor that leads nowhere must not keep us asking. One that leads on may: pages can be empty where
            // much was looked at.
            if more.is_empty() && page.next_cursor().is_none_or(|next| next == cursor) {
                break;
            }
            all.append(&mut more);
            pages += 1;
        }
        page.value[items] = Value::Array(all);
        if pages > 1 {
            page.text = page.value.to_string();
        }
        Ok(page)
    }

    /// The id that the user means: `latest` is the newest run.
    pub(crate) fn run_id(&self, run: &str) -> Result<String, Failure> {
        if run != "latest" {
            return Ok(run.to_string());
        }
        let newest = self.get("/v1/runs?limit=1")?;
        newest.value["runs"][0]["runId"].as_str().map(str::to_string).ok_or_else(|| {
            Failure::refused("there is no run yet").hint("start one with `holdpoint runs start WORKFLOW`")
        })
    }

    /// Opens an endless reply. The caller reads it line by line.
    pub(crate) fn stream(
        &self,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Result<impl Read + use<>, Failure> {
        let mut request = self.request("GET", path).header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let request = request.body(()).map_err(|error| bad_request(&error))?;
        let response = self.stream_agent.run(request).map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response.into_body().into_reader());
        }
        let status = response.status().as_u16();
        let text = self.text(response)?;
        Err(Failure::from_reply(status, path, text.as_bytes()))
    }

    fn reply(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, String)],
    ) -> Result<Reply, Failure> {
        let mut request = self.request(method, path).header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = match body {
            Some(text) => {
                let request = request.header("content-type", "application/json").body(text);
                self.agent.run(request.map_err(|error| bad_request(&error))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| bad_request(&error))?),
        };
        let response = sent.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let replayed = response.headers().contains_key("openwop-idempotent-replay");
        let text = self.text(response)?;
        if !status.is_success() {
            return Err(Failure::from_reply(status.as_u16(), path, text.as_bytes()));
        }
        let value = if text.trim().is_empty() { Ok(Value::Null) } else { serde_json::from_str(&text) };
        let value = value.map_err(|_| {
            Failure::broken(format!("{} answered with something that is not JSON", self.settings.server))
                .hint("does --server name a Holdpoint server?")
        })?;
        Ok(Reply { status: status.as_u16(), value, replayed, text })
    }

    fn request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.settings.server))
            .header("authorization", format!("Bearer {}", self.settings.key))
    }

    fn text(&self, response: Response<Body>) -> Result<String, Failure> {
        let mut body = response.into_body();
        body.with_config()
            .limit(REPLY_BYTES_MAX)
            .lossy_utf8(true)
            .read_to_string()
            .map_err(|e| self.unreachable(&e))
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let server = &self.settings.server;
        match error {
            ureq::Error::Timeout(timeout) => {
                Failure::broken(format!("{server} took too long (timeout: {timeout})"))
                    .hint("the server may have done it all the same: look before you repeat")
            }
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                Failure::unreachable(server, "connection refused")
            }
            ureq::Error::Io(error) => Failure::unreachable(server, &error.to_string()),
            other => Failure::unreachable(server, &other.to_string()),
        }
    }
}

impl Reply {
    /// The server's JSON; taken apart only if it was sent over several lines.
    pub(crate) fn one_line(&self) -> String {
        let text = self.text.trim();
        if text.contains('\n') { self.value.to_string() } else { text.to_string() }
    }

    pub(crate) fn next_cursor(&self) -> Option<String> {
        self.value["nextCursor"].as_str().map(str::to_string)
    }

    fn take_items(&mut self, items: &str) -> Result<Vec<Value>, Failure> {
        match self.value.get_mut(items).map(|list| std::mem::replace(list, json!([]))) {
            Some(Value::Array(list)) => Ok(list),
            _ => Err(Failure::broken(format!("the server's answer has no list `{items}`"))
                .hint("does --server name a Holdpoint server of this version?")),
        }
    }
}

fn bad_request(error: &ureq::http::Error) -> Failure {
    Failure::usage(format!("this cannot be sent to the server: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_scripts_is_the_servers_own_text_on_one_line() {
        let reply = |text: &str| Reply {
            status: 200,
            value: serde_json::from_str(text).expect("test JSON"),
            replayed: false,
            text: text.to_string(),
        };
        assert_eq!(reply("{\"b\":1, \"a\":2}\n").one_line(), "{\"b\":1, \"a\":2}");
        assert_eq!(reply("{\n \"b\": 1 }").one_line(), "{\"b\":1}");
    }
}
