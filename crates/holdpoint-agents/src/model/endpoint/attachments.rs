//! Attachments in messages: images, documents and audio. Clients send them in the format of AG-UI; images also in the
//! format of chat completions. A model accepts the listed media types up to a size.

use std::borrow::Cow;
use std::sync::Arc;

use holdpoint_core::agent::Message;
use serde_json::Value;

use super::super::BadModel;
use super::super::members::ModelMembers;
use super::api::EndpointApi;
use super::conversation::plain;
use super::media_data;

/// The default limit of one attachment in bytes.
const BYTES_MAX: u64 = 1024 * 1024;
/// The limit of all attachments of a request in base64. The newest ones are sent.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest media type, name or address in an error.
const SHOWN_CHARS_MAX: usize = 60;

/// The attachments that a model accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentRules {
    /// The media types, in lower case. Empty for no attachments.
    pub types: Vec<String>,
    /// The limit of one attachment in bytes.
    pub bytes_max: u64,
    /// Accepts addresses, which the server of the model reads.
    pub urls: bool,
    api: EndpointApi,
}

/// A part of the content of a message.
#[derive(Debug, PartialEq)]
pub(super) enum ContentPart<'a> {
    Text(Cow<'a, str>),
    Attachment(Attachment<'a>),
}

/// An attachment that the model accepts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attachment<'a> {
    pub kind: MediaKind,
    /// The media type; unknown for some addresses.
    pub media_type: Option<&'a str>,
    pub source: MediaSource<'a>,
    pub name: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaKind {
    Image,
    Audio,
    Document,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaSource<'a> {
    /// Bytes in base64.
    Data(&'a str),
    Url(&'a str),
}

/// The attachments of one request, with a limit of their sum.
pub(super) struct RequestAttachments<'a> {
    rules: &'a AttachmentRules,
    /// The position of the first message whose attachments are sent.
    first: usize,
}

impl AttachmentRules {
    /// Returns the default rules: all media types of the API, and no addresses.
    pub fn of_api(api: EndpointApi) -> Self {
        let types = api.media_types().iter().map(|one| (*one).to_owned()).collect();
        Self { types, bytes_max: BYTES_MAX, urls: false, api }
    }

    /// Parses the member `attachments` of a model.
    pub(super) fn parse(value: &Value, api: EndpointApi) -> Result<Self, BadModel> {
        let mut members = ModelMembers::of(value, "attachments")?;
        let mut rules = Self::of_api(api);
        if let Some(types) = members.take::<Vec<String>>("types", "a list of media types")? {
            if types.iter().any(|one| !api.media_types().contains(&one.as_str())) {
                let known = api.media_types().join(", ");
                return Err(members.flaw("types", format!("can only contain {known}")));
            }
            rules.types = types;
        }
        rules.bytes_max = members.count("maxBytes", 1..=16 * 1024 * 1024)?.unwrap_or(rules.bytes_max);
        rules.urls = members.take("urls", "true or false")?.unwrap_or(rules.urls);
        members.reject_unknown()?;
        Ok(rules)
    }

    /// Checks the parts of a message. The error names the part and the reason.
    pub(super) fn check(&self, content: &Value) -> Result<(), String> {
        let Value::Array(parts) = content else { return Ok(()) };
        let flaw = |(at, part)| self.part(part).err().map(|why| format!("content[{at}]: {why}"));
        parts.iter().enumerate().find_map(flaw).map_or(Ok(()), Err)
    }

    fn part<'a>(&self, part: &'a Value) -> Result<ContentPart<'a>, String> {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        let kind = text("type").unwrap_or_default();
        let found = match kind {
            "text" => {
                let text = text("text").ok_or("the part has no text")?;
                return Ok(ContentPart::Text(text.into()));
            }
            "image" | "audio" | "video" | "document" => from_source(part)?,
            "binary" => SentMedia {
                source: text("data").map(MediaSource::Data).or_else(|| text("url").map(MediaSource::Url)),
                media_type: text("mimeType"),
            },
            "image_url" => from_image_url(part)?,
            other => return Err(format!("a part of the type {:?} is not accepted", shorten(other))),
        };
        let source = found.source.ok_or("the part has neither data nor an address")?;
        let kind = self.check_media(kind, found.media_type, source)?;
        let name = text("filename").filter(|name| !name.chars().any(char::is_control));
        Ok(ContentPart::Attachment(Attachment { kind, media_type: found.media_type, source, name }))
    }

    /// Checks the type and the size of an attachment, and returns its kind.
    fn check_media(
        &self,
        part: &str,
        media_type: Option<&str>,
        source: MediaSource<'_>,
    ) -> Result<MediaKind, String> {
        let accepted = |prefix: &str| self.types.iter().any(|one| one.starts_with(prefix));
        let kind = match media_type {
            Some(known) if self.types.iter().any(|one| one == known) => kind_of(known),
            None if part.starts_with("image") && accepted("image/") => MediaKind::Image,
            None if part == "document" && accepted("application/pdf") => MediaKind::Document,
            other => {
                let shown = shorten(other.unwrap_or("unknown"));
                let types = if self.types.is_empty() { "none".to_owned() } else { self.types.join(", ") };
                return Err(format!("the media type {shown} is not accepted; accepted: {types}"));
            }
        };
        match source {
            MediaSource::Url(_) if !self.urls => {
                Err("an address is not accepted; send the data of the attachment".to_owned())
            }
            MediaSource::Url(url) if !url.starts_with("https://") && !url.starts_with("http://") => {
                Err("the address must begin with https:// or http://".to_owned())
            }
            MediaSource::Url(_) if kind != MediaKind::Image && self.api == EndpointApi::ChatCompletions => {
                Err("an address is only accepted for an image".to_owned())
            }
            MediaSource::Url(_) => Ok(kind),
            MediaSource::Data(data) => {
                let media_type = media_type.ok_or("the media type is missing")?;
                let bytes = media_data::check(media_type, data)?;
                if bytes > self.bytes_max {
                    return Err(format!("the attachment has {bytes} bytes; the limit is {}", self.bytes_max));
                }
                Ok(kind)
            }
        }
    }
}

/// The source and the media type of an attachment as the client sent them.
struct SentMedia<'a> {
    source: Option<MediaSource<'a>>,
    media_type: Option<&'a str>,
}

fn from_source(part: &Value) -> Result<SentMedia<'_>, String> {
    let source = part.get("source").ok_or("the part has no source")?;
    let text = |name: &str| source.get(name).and_then(Value::as_str);
    let value = text("value").ok_or("the source has no value")?;
    let kind = match text("type") {
        Some("data") => MediaSource::Data(value),
        Some("url") => MediaSource::Url(value),
        other => {
            return Err(format!("the source type {:?} is not accepted", shorten(other.unwrap_or_default())));
        }
    };
    Ok(SentMedia { source: Some(kind), media_type: text("mimeType") })
}

/// Reads an image in the format of chat completions.
fn from_image_url(part: &Value) -> Result<SentMedia<'_>, String> {
    let url =
        part.pointer("/image_url/url").and_then(Value::as_str).ok_or("the part has no image_url.url")?;
    let Some(data) = url.strip_prefix("data:") else {
        return Ok(SentMedia { source: Some(MediaSource::Url(url)), media_type: None });
    };
    let (media_type, data) = data.split_once(";base64,").ok_or("the data: address is not in base64")?;
    Ok(SentMedia { source: Some(MediaSource::Data(data)), media_type: Some(media_type) })
}

impl Attachment<'_> {
    /// Returns the attachment as an address: its own, or a `data:` address with its bytes.
    pub(super) fn to_url(&self) -> String {
        match self.source {
            MediaSource::Url(url) => url.to_owned(),
            MediaSource::Data(data) => format!("data:{};base64,{data}", self.media_type.unwrap_or_default()),
        }
    }
}

impl<'a> RequestAttachments<'a> {
    pub(super) fn new(rules: &'a AttachmentRules, messages: &[Arc<Message>]) -> Self {
        let mut bytes = 0_usize;
        let too_many = messages.iter().rposition(|message| {
            let parts = message.content.as_array().into_iter().flatten();
            bytes += parts
                .map(|part| match rules.part(part) {
                    Ok(ContentPart::Attachment(Attachment { source: MediaSource::Data(data), .. })) => {
                        data.len()
                    }
                    Ok(_) | Err(_) => 0,
                })
                .sum::<usize>();
            bytes > REQUEST_BYTES_MAX
        });
        Self { rules, first: too_many.map_or(0, |at| at + 1) }
    }

    /// Returns the parts of a message. A text replaces an attachment that is not sent.
    pub(super) fn parts<'c>(&self, message: usize, content: &'c Value) -> Vec<ContentPart<'c>> {
        let Value::Array(parts) = content else { return vec![ContentPart::Text(plain(content).into())] };
        let part = |part| match self.rules.part(part) {
            Ok(ContentPart::Attachment(_)) if message < self.first => {
                left_out("the attachments after it reach the limit of a request")
            }
            Ok(part) => part,
            Err(why) => left_out(&why),
        };
        parts.iter().map(part).collect()
    }
}

fn left_out(why: &str) -> ContentPart<'static> {
    ContentPart::Text(format!("(An attachment was left out: {why}.)").into())
}

/// Returns the text of parts if none is an attachment.
pub(super) fn only_text(parts: &[ContentPart<'_>]) -> Option<String> {
    let texts = parts.iter().map(|part| match part {
        ContentPart::Text(text) => Some(text.as_ref()),
        ContentPart::Attachment(_) => None,
    });
    Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
}

fn kind_of(media_type: &str) -> MediaKind {
    match media_type.split_once('/') {
        Some(("image", _)) => MediaKind::Image,
        Some(("audio", _)) => MediaKind::Audio,
        _ => MediaKind::Document,
    }
}

fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_CHARS_MAX).collect()
}
