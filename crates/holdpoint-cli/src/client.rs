//! The client of the command line: sends requests of `holdpoint_client` and waits for their responses.

use std::ops::Deref;

use holdpoint_client::{EventStream, ListPage, Reply, Request, RetryPolicy, SseFrame};
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use super::connection::Settings;
use super::failure::Failure;

/// A blocking client. Requests are built with the methods of the inner [`holdpoint_client::Client`].
pub(crate) struct Client {
    client: holdpoint_client::Client,
    runtime: Runtime,
}

impl Deref for Client {
    type Target = holdpoint_client::Client;

    fn deref(&self) -> &Self::Target {
        &self.client
    }
}

impl Client {
    pub(crate) fn new(settings: Settings) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::broken(format!("cannot start a runtime: {error}")))?;
        // No retries: the user or the script sees each error and decides whether to repeat the command.
        let client = settings.builder().retry(RetryPolicy::OFF).build()?;
        Ok(Self { client, runtime })
    }

    /// Sends a request and waits for its response.
    pub(crate) fn send<T: DeserializeOwned>(&self, request: Request<T>) -> Result<Reply<T>, Failure> {
        Ok(self.runtime.block_on(request.reply())?)
    }

    /// Sends a request under an idempotency key, if there is one.
    pub(crate) fn send_keyed<T: DeserializeOwned>(
        &self,
        request: Request<T>,
        key: Option<&str>,
    ) -> Result<Reply<T>, Failure> {
        self.send(if let Some(key) = key { request.idempotency_key(key) } else { request })
    }

    /// Reads the pages of a list until `limit` entries are collected.
    pub(crate) fn collect<T: ListPage>(&self, request: Request<T>, limit: u32) -> Result<Reply<T>, Failure> {
        Ok(self.runtime.block_on(request.collect(limit as usize))?)
    }

    /// Waits for the next event of a stream. Returns None after the last one.
    pub(crate) fn next(&self, events: &mut EventStream) -> Result<Option<SseFrame>, Failure> {
        Ok(self.runtime.block_on(events.next())?)
    }

    /// Returns an absolute URL: adds the address of the server to a path.
    pub(crate) fn absolute(&self, url: &str) -> String {
        if url.starts_with('/') { format!("{}{url}", self.server()) } else { url.to_owned() }
    }

    /// Returns the id of a run argument. `latest` means the newest run.
    pub(crate) fn run_id(&self, run: &str) -> Result<String, Failure> {
        if run != "latest" {
            return Ok(run.to_owned());
        }
        let newest = self.collect(self.runs().list(&Default::default()), 1)?.value.runs.pop();
        newest.map(|run| run.run_id.to_string()).ok_or_else(|| {
            Failure::refused("there are no runs").hint("start one with `holdpoint runs start WORKFLOW`")
        })
    }
}
