//! The `model` of a definition whose `provider` is an endpoint.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use holdpoint_engine::outgoing;
use serde_json::{Map, Value};

use super::super::BadModel;
use super::super::key::parse_key;
use super::super::members::ModelMembers;
use super::super::{KeyRef, SecretText};
use super::api::EndpointApi;
use super::attachments::AttachmentRules;
use super::options::is_reserved;

const HOUR_MS: u64 = 3_600_000;

/// The settings of an endpoint.
#[derive(Clone)]
pub struct EndpointSettings {
    /// The API of the endpoint.
    pub api: EndpointApi,
    /// The name of the model.
    pub model: String,
    /// The address without the path of the API, such as `/chat/completions`.
    pub base_url: String,
    /// The location of the API key.
    pub api_key: Option<KeyRef>,
    /// Additional request headers.
    pub headers: Vec<(String, HeaderText)>,
    /// Members of every request, such as `temperature` and `maxTokens`. Options of a prompt override them.
    pub options: Map<String, Value>,
    /// Requests a streamed reply.
    pub stream: bool,
    /// The timeout of a reply, including retries and the delays between them.
    pub timeout_ms: u64,
    /// The longest time without data in the middle of a reply.
    pub idle_timeout_ms: u64,
    /// The number of retries after transient errors.
    pub retries: u64,
    /// The delay before the first retry. It doubles for each further retry.
    pub retry_base_ms: u64,
    /// The limit of a reply in bytes: text and arguments together.
    pub reply_bytes_max: usize,
    /// The attachments that the model accepts.
    pub attachments: AttachmentRules,
}

/// The value of a header.
#[derive(Clone, Debug)]
pub enum HeaderText {
    /// A value from the definition.
    Text(SecretText),
    /// A value from the environment or a file.
    Key(KeyRef),
}

impl fmt::Debug for EndpointSettings {
    // The query of the address may contain a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSettings").field("model", &self.model).finish_non_exhaustive()
    }
}

impl EndpointSettings {
    /// Returns the source of the reasoning of this model. Only the same API and model get it back.
    pub(super) fn source(&self) -> String {
        self.api.source_of(&self.model)
    }

    /// Returns the default settings for a model at an address.
    pub fn new(api: EndpointApi, model: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            api,
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
            attachments: AttachmentRules::of_api(api),
        }
    }

    /// Parses the settings. See [`super::super::from_definition`].
    pub fn parse(value: &Value, base: Option<&Path>) -> Result<Self, BadModel> {
        let mut members = ModelMembers::of(value, "")?;
        let api = EndpointApi::of_provider(&members.needed_text("provider")?)
            .ok_or_else(|| members.flaw("provider", "is not the API of an endpoint"))?;
        let mut settings = Self::new(api, members.needed_text("model")?, members.needed_text("baseUrl")?);
        if let Some(key) = members.value("apiKey") {
            settings.api_key = Some(parse_key(key, "apiKey", base)?);
        }
        if let Some(headers) = members.value("headers") {
            settings.headers = parse_headers(headers, base)?;
        }
        settings.options = parse_options(&mut members, api)?;
        if let Some(attachments) = members.value("attachments") {
            settings.attachments = AttachmentRules::parse(attachments, api)?;
        }
        if let Some(stream) = members.take("stream", "true or false")? {
            settings.stream = stream;
        }
        let counts: [(&'static str, RangeInclusive<u64>, &mut u64); 4] = [
            ("timeoutMs", 1..=HOUR_MS, &mut settings.timeout_ms),
            ("idleTimeoutMs", 1..=HOUR_MS, &mut settings.idle_timeout_ms),
            ("retries", 0..=10, &mut settings.retries),
            ("retryBaseMs", 1..=60_000, &mut settings.retry_base_ms),
        ];
        for (name, range, setting) in counts {
            *setting = members.count(name, range)?.unwrap_or(*setting);
        }
        if let Some(limit) = members.count("maxReplyBytes", 1..=64 * 1024 * 1024)? {
            settings.reply_bytes_max = usize::try_from(limit).unwrap_or(settings.reply_bytes_max);
        }
        members.reject_unknown()?;
        Ok(settings)
    }
}

fn parse_options(members: &mut ModelMembers<'_>, api: EndpointApi) -> Result<Map<String, Value>, BadModel> {
    let options: Option<Map<String, Value>> = members.take("options", "an object")?;
    let mut options = options.unwrap_or_default();
    if let Some(name) = options.keys().find(|name| is_reserved(api, name)) {
        return Err(members.flaw(&format!("options.{name}"), "cannot be set by a definition"));
    }
    let expected = format!("a number from 0 to {}", api.temperature_max());
    let temperature: Option<f64> = members.take("temperature", &expected)?;
    if let Some(temperature) = temperature {
        if !(0.0..=api.temperature_max()).contains(&temperature) {
            return Err(members.flaw("temperature", format!("must be {expected}")));
        }
        options.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(tokens) = members.count("maxTokens", 1..=100_000_000)? {
        options.insert("maxTokens".to_owned(), tokens.into());
    }
    Ok(options)
}

fn parse_headers(value: &Value, base: Option<&Path>) -> Result<Vec<(String, HeaderText)>, BadModel> {
    let Value::Object(headers) = value else { return Err(BadModel::new("headers", "must be an object")) };
    let parse = |(name, value): (&String, &Value)| {
        let path = format!("headers.{name}");
        if !outgoing::is_settable_header(name) {
            return Err(BadModel::new(path, "is a header that cannot be set"));
        }
        let text = match value {
            Value::String(text) if !text.chars().any(char::is_control) => {
                HeaderText::Text(SecretText::new(text))
            }
            Value::Object(_) => HeaderText::Key(parse_key(value, &path, base)?),
            _ => {
                return Err(BadModel::new(
                    path,
                    "must be a string without control characters, {\"env\": …} or {\"file\": …}",
                ));
            }
        };
        Ok((name.clone(), text))
    };
    headers.iter().map(parse).collect()
}
