//! How a model is reached: the `model` of a definition with `"provider": "openai"`.

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::BadModel;
use super::super::key::{KeyRef, Secret};
use super::super::members::Members;
use super::request::is_ours;
use crate::outgoing;

const HOUR_MS: u64 = 3_600_000;

#[derive(Clone)]
pub struct Settings {
    pub model: String,
    /// Up to where `/chat/completions` follows.
    pub base_url: String,
    pub api_key: Option<KeyRef>,
    pub headers: Vec<(String, HeaderText)>,
    /// Members of every request, unless a prompt says otherwise: `temperature`, `maxTokens` and what else there is.
    pub options: Map<String, Value>,
    /// Whether the reply is asked for word by word.
    pub stream: bool,
    /// For a reply with everything that it takes: attempts, and waits between them.
    pub timeout_ms: u64,
    /// How long a model may be silent in the middle of a reply.
    pub idle_timeout_ms: u64,
    /// How often it is asked again after something that may pass.
    pub retries: u64,
    /// The wait before the first of these, which doubles for each that follows.
    pub retry_base_ms: u64,
    /// Of text and arguments together.
    pub reply_bytes_max: usize,
}

#[derive(Clone, Debug)]
pub enum HeaderText {
    Text(Secret),
    Key(KeyRef),
}

impl fmt::Debug for Settings {
    // The address may carry a key in its query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Settings {
    pub fn new(model: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            options: Map::new(),
            stream: true,
            timeout_ms: 120_000,
            idle_timeout_ms: 60_000,
            retries: 2,
            retry_base_ms: 500,
            reply_bytes_max: 1024 * 1024,
        }
    }

    /// See [`super::super::from_definition`].
    pub fn parse(value: &Value, base: Option<&Path>) -> Result<Self, BadModel> {
        let mut members = Members::of(value, "")?;
        members.value("provider");
        let mut settings = Self::new(members.needed_text("model")?, members.needed_text("baseUrl")?);
        if let Some(key) = members.value("apiKey") {
            settings.api_key = Some(KeyRef::parse(key, "apiKey", base)?);
        }
        if let Some(headers) = members.value("headers") {
            settings.headers = parse_headers(headers, base)?;
        }
        settings.options = parse_options(&mut members)?;
        if let Some(stream) = members.take("stream", "true or false")? {
            settings.stream = stream;
        }
        let counts: [(&'static str, (u64, u64), &mut u64); 4] = [
            ("timeoutMs", (1, HOUR_MS), &mut settings.timeout_ms),
            ("idleTimeoutMs", (1, HOUR_MS), &mut settings.idle_timeout_ms),
            ("retries", (0, 10), &mut settings.retries),
            ("retryBaseMs", (1, 60_000), &mut settings.retry_base_ms),
        ];
        for (name, range, setting) in counts {
            *setting = members.count(name, range)?.unwrap_or(*setting);
        }
        if let Some(most) = members.count("maxReplyBytes", (1, 64 * 1024 * 1024))? {
            settings.reply_bytes_max = usize::try_from(most).unwrap_or(settings.reply_bytes_max);
        }
        members.end()?;
        Ok(settings)
    }
}

fn parse_options(members: &mut Members<'_>) -> Result<Map<String, Value>, BadModel> {
    let options: Option<Map<String, Value>> = members.take("options", "an object")?;
    let mut options = options.unwrap_or_default();
    if let Some(name) = options.keys().find(|name| is_ours(name)) {
        return Err(members.flaw(&format!("options.{name}"), "is not for a definition to say"));
    }
    let temperature: Option<f64> = members.take("temperature", "a number from 0 to 2")?;
    if let Some(temperature) = temperature {
        if !(0.0..=2.0).contains(&temperature) {
            return Err(members.flaw("temperature", "must be a number from 0 to 2"));
        }
        options.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(tokens) = members.count("maxTokens", (1, 100_000_000))? {
        options.insert("maxTokens".to_owned(), tokens.into());
    }
    Ok(options)
}

fn parse_headers(value: &Value, base: Option<&Path>) -> Result<Vec<(String, HeaderText)>, BadModel> {
    let Value::Object(headers) = value else { return Err(BadModel::new("headers", "must be an object")) };
    let parse = |(name, value): (&String, &Value)| {
        let path = format!("headers.{name}");
        if !outgoing::may_be_set(name) {
            return Err(BadModel::new(path, "is no header that can be set"));
        }
        let text = match value {
            Value::String(text) if !text.chars().any(char::is_control) => HeaderText::Text(Secret::new(text)),
            Value::Object(_) => HeaderText::Key(KeyRef::parse(value, &path, base)?),
            _ => return Err(BadModel::new(path, "must be a line of text, {\"env\": …} or {\"file\": …}")),
        };
        Ok((name.clone(), text))
    };
    headers.iter().map(parse).collect()
}
