//! A request: a method of a resource builds it, and awaiting it sends it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use holdpoint_api::ids::hex;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Client;
use crate::error::{Error, Refusal};
use crate::transport::{Body, next_chunk};

/// The maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 64 << 20;
const PAGE_SIZE: usize = 100;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request whose successful response is a `T`.
///
/// ```no_run
/// # async fn example(client: holdpoint_client::Client) -> Result<(), holdpoint_client::Error> {
/// use holdpoint_client::api::runs::CreateRun;
///
/// let run = CreateRun { workflow_id: "sample-approval".into(), ..CreateRun::default() };
/// let created = client.runs().create(&run).idempotency_key("order-1742").await?;
/// println!("{} is {}", created.run_id, created.status.as_str());
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when it is awaited"]
pub struct Request<T> {
    client: Client,
    method: Method,
    path: String,
    body: Option<Bytes>,
    headers: HeaderMap,
    timeout: Option<Duration>,
    /// The maximum number of entries in one page, for [`Request::collect`].
    pub(crate) page_size: usize,
    /// The defect that was found while the request was built; the request cannot be sent.
    invalid: Option<String>,
    response: PhantomData<fn() -> T>,
}

/// A successful response.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply<T> {
    /// The parsed body.
    pub value: T,
    /// The HTTP status.
    pub status: u16,
    /// True if this is the stored response of an earlier request with the same idempotency key. The server did not
    /// execute this request.
    pub replayed: bool,
    /// The body as it was received.
    pub text: String,
}

impl<T> Request<T> {
    pub(crate) fn new(client: &Client, method: Method, path: String) -> Self {
        Self {
            client: client.clone(),
            method,
            path,
            body: None,
            headers: HeaderMap::new(),
            timeout: None,
            page_size: PAGE_SIZE,
            invalid: None,
            response: PhantomData,
        }
    }

    /// Adds members to the query. Members without a value are omitted.
    pub fn query(mut self, query: &impl Serialize) -> Self {
        match serde_urlencoded::to_string(query) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => {
                self.path.push(if self.path.contains('?') { '&' } else { '?' });
                self.path.push_str(&text);
            }
            Err(error) => self.invalid = Some(error.to_string()),
        }
        self
    }

    /// Sets the body, serialized as JSON.
    pub fn body(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.body = Some(bytes.into()),
            Err(error) => self.invalid = Some(error.to_string()),
        }
        self
    }

    /// Sets the body to a JSON text, which is sent unchanged.
    pub fn body_text(mut self, text: String) -> Self {
        self.body = Some(text.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(value)) => {
                self.headers.insert(name, value);
            }
            _ => self.invalid = Some(format!("{name}: the value cannot be sent in a header")),
        }
        self
    }

    /// Sets the idempotency key. The server executes a request with the same key and body once, and repeats its
    /// response. If the caller sets no key, a client with retries adds a random one to each POST, PUT and DELETE.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Sets the time within which the response must arrive, in place of the timeout of the client.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request once and returns the body as text, for responses that are not JSON or are not parsed.
    pub async fn text(self) -> Result<String, Error> {
        let exchange = async { self.read(self.send_once(HeaderValue::from_static("*/*")).await?).await };
        self.in_time(exchange).await
    }

    /// Sets a random idempotency key. The server executes the request once, even if the caller sends it several times.
    pub fn random_idempotency_key(mut self) -> Self {
        match random_key() {
            Some(key) => {
                self.headers.insert("idempotency-key", key);
            }
            None => self.invalid = Some("idempotency key: cannot read random numbers".to_owned()),
        }
        self
    }

    pub(crate) fn is_get(&self) -> bool {
        self.method == Method::GET
    }

    /// Returns the path without its query and without the token of a link, because the token is a credential.
    fn shown_path(&self) -> &str {
        let path = self.path.split('?').next().unwrap_or_default();
        if path.starts_with("/v1/interrupts/") { "/v1/interrupts/{token}" } else { path }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Opens the response without reading it, for streams. Sends the request once.
    pub(crate) async fn open(&self, accept: &'static str) -> Result<Response<Body>, Error> {
        self.in_time(self.send_once(HeaderValue::from_static(accept))).await
    }

    /// Waits for an exchange. Returns an error if it takes longer than the timeout.
    async fn in_time<R>(&self, exchange: impl Future<Output = Result<R, Error>>) -> Result<R, Error> {
        let limit = self.timeout.unwrap_or(self.client.timeout());
        tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(self.client.timed_out(limit)))
    }

    async fn send_once(&self, accept: HeaderValue) -> Result<Response<Body>, Error> {
        if let Some(reason) = &self.invalid {
            return Err(Error::InvalidRequest(reason.clone()));
        }
        // An HTTP library may resolve these segments, which would send the request to another route.
        let path = self.path.split(['?', '#']).next().unwrap_or_default();
        let is_dots =
            |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
        // Without the slash, the path would become part of the name of the server.
        if !path.starts_with('/') || path.contains('\\') || path.split('/').any(is_dots) {
            let reason = "the path must begin with / and must not contain the segments `.` or `..`";
            return Err(Error::InvalidRequest(reason.to_owned()));
        }
        let uri = format!("{}{}", self.client.server(), self.path).parse::<http::Uri>();
        let mut request = http::Request::new(self.body.clone().unwrap_or_default());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri.map_err(|error| Error::InvalidRequest(error.to_string()))?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.entry(ACCEPT).or_insert(accept);
        if let Some(key) = &self.client.connection.authorization {
            headers.entry(AUTHORIZATION).or_insert_with(|| key.clone());
        }
        if self.body.is_some() {
            headers.entry(CONTENT_TYPE).or_insert(JSON);
        }
        let response = self.client.send(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut refusal = Refusal::from_response(status, self.shown_path(), self.read(response).await?);
        refusal.retry_after = retry_after.map(Duration::from_secs);
        Err(Error::Refused(Box::new(refusal)))
    }

    async fn read(&self, mut response: Response<Body>) -> Result<String, Error> {
        let mut body = Vec::new();
        while let Some(chunk) =
            next_chunk(response.body_mut()).await.map_err(|reason| self.client.broken(reason))?
        {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return Err(self.client.invalid(format!("it has more than {RESPONSE_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        String::from_utf8(body).map_err(|_| self.client.invalid("it is not UTF-8".to_owned()))
    }
}

/// Omits bodies and headers, because they may contain secrets.
impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.shown_path())
    }
}

impl<T> Clone for Request<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            body: self.body.clone(),
            headers: self.headers.clone(),
            timeout: self.timeout,
            page_size: self.page_size,
            invalid: self.invalid.clone(),
            response: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Request<T> {
    /// Sends the request and returns the response with its status and its text.
    pub async fn reply(mut self) -> Result<Reply<T>, Error> {
        let may_repeat = self.prepare_retries();
        let mut attempt = 0;
        loop {
            let error = match self.in_time(self.try_once()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            // A request that the server did not receive can always be repeated.
            let is_safe = may_repeat || matches!(error, Error::Connect { .. });
            let retry_after = error.refusal().and_then(|refusal| refusal.retry_after);
            let delay = self.client.retry().delay(attempt, retry_after);
            let Some(delay) = delay.filter(|_| is_safe && error.is_transient()) else { return Err(error) };
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }

    /// Returns whether the request can be repeated. Adds an idempotency key to a request other than GET if the client
    /// has retries.
    fn prepare_retries(&mut self) -> bool {
        let has_key = self.headers.contains_key("idempotency-key");
        if self.is_get() || has_key {
            return true;
        }
        let key = (self.client.retry().retries > 0).then(random_key).flatten();
        if let Some(key) = key {
            self.headers.insert("idempotency-key", key);
            return true;
        }
        self.method != Method::POST
    }

    async fn try_once(&self) -> Result<Reply<T>, Error> {
        let response = self.send_once(JSON).await?;
        let status = response.status().as_u16();
        let replayed = response.headers().contains_key("openwop-idempotent-replay");
        let text = self.read(response).await?;
        // A response without a body is read as null.
        let json = if text.trim().is_empty() { "null" } else { &text };
        let value = serde_json::from_str(json).map_err(|error| {
            self.client.invalid(format!("{} {}: {error}", self.method, self.shown_path()))
        })?;
        Ok(Reply { value, status, replayed, text })
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Request<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.reply().await.map(|reply| reply.value) })
    }
}

fn random_key() -> Option<HeaderValue> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    HeaderValue::from_str(&hex(&bytes)).ok()
}
