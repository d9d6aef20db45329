//! Extractors for bodies, queries and paths. Invalid input becomes the error envelope.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{is_host_name, limits, parse_new_name};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::ApiError;

/// A JSON body. Repeated keys, trailing text and bodies over the limit are rejected.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub T);

/// A type that is read from the bytes of a body.
pub(crate) trait FromBytes: Sized {
    fn from_bytes(bytes: &[u8]) -> Result<Self, ApiError>;
}

impl<T: DeserializeOwned> FromBytes for JsonBody<T> {
    fn from_bytes(bytes: &[u8]) -> Result<Self, ApiError> {
        parse(bytes).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + Default> FromBytes for OptionalBody<T> {
    fn from_bytes(bytes: &[u8]) -> Result<Self, ApiError> {
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(bytes).map(Self) }
    }
}

/// A body that is ignored.
#[derive(Debug)]
pub(crate) struct IgnoredBody;

impl FromBytes for IgnoredBody {
    fn from_bytes(_bytes: &[u8]) -> Result<Self, ApiError> {
        Ok(Self)
    }
}

/// Maximum time for a complete body: a slow body must not hold a connection forever.
const BODY_TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    let reading = tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, state));
    let read = reading.await.map_err(|_| {
        let message = format!("the body did not arrive within {} seconds", BODY_TIME_MAX.as_secs());
        ApiError::new(ErrorCode::RequestTimeout, message)
    })?;
    read.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            let max = limits::REQUEST_BYTES_MAX;
            let message = format!("the body is too large; at most {max} bytes are accepted");
            ApiError::new(ErrorCode::PayloadTooLarge, message)
                .with(ErrorDetails { max_bytes: Some(max), ..Default::default() })
        }
        _ => ApiError::new(ErrorCode::ValidationError, "the body could not be read to its end"),
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let refused = |error: serde_json::Error| {
        let problem =
            if error.is_data() { "the body does not match its schema" } else { "the body is not valid JSON" };
        let why = without_values(&error.to_string());
        ApiError::new(ErrorCode::ValidationError, format!("{problem}: {why}"))
    };
    // Serde would also accept a list as a struct, member by member.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(refused)?;
        let message = "the body does not match its schema: expected an object";
        return Err(ApiError::new(ErrorCode::ValidationError, message));
    }
    serde_json::from_slice(bytes).map_err(refused)
}

/// Returns an error of serde without the values that it quotes from the request, which may be secrets. The position is
/// enough to find the mistake.
fn without_values(text: &str) -> String {
    let place = text.rfind(" at line ").unwrap_or(text.len());
    let (message, place) = text.split_at(place);
    let quotes = ["invalid type: ", "invalid value: ", "unknown field ", "unknown variant ", "the key "];
    let Some(quoted) = quotes.iter().find(|start| message.starts_with(**start)) else {
        return text.to_owned();
    };
    let rest = &message[quoted.len()..];
    let kind = rest.find(['"', '`']).map_or(rest, |at| &rest[..at]);
    let expected = match *quoted {
        "the key " => " appears twice",
        // The last match: a value may contain the same text.
        _ => rest.rfind(", expected ").or_else(|| rest.rfind(", there are no")).map_or("", |at| &rest[at..]),
    };
    let kind = kind.split(", expected ").next().unwrap_or_default();
    format!("{}{expected}{place}", format!("{quoted}{kind}").trim_end().trim_end_matches(':'))
}

/// Rejects a text that cannot be the name of a tenant, a principal, a role or a group.
pub(crate) fn check_word(field: &str, text: &str) -> Result<(), ApiError> {
    let fits = (1..=128).contains(&text.chars().count());
    if fits && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',') {
        return Ok(());
    }
    Err(ApiError::invalid(field, "must be 1 to 128 characters without spaces and commas"))
}

/// Returns the name of a new role or group in its normal form.
pub(crate) fn parse_word(field: &str, text: &str) -> Result<String, ApiError> {
    let word = parse_new_name(text).map_err(|bad| ApiError::invalid(field, bad))?;
    check_word(field, text)?;
    check_word(field, &word)?;
    Ok(word.into_owned())
}

/// Returns the name of a new principal in its normal form. Names with the reserved prefixes of the server are rejected.
pub(crate) fn parse_principal(field: &str, name: &str) -> Result<String, ApiError> {
    let name = parse_word(field, name)?;
    if is_host_name(&name) {
        return Err(ApiError::invalid(
            field,
            "must not begin with system: or quorum:; the server uses these prefixes",
        ));
    }
    Ok(name)
}

/// Query parameters.
#[derive(Debug)]
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(parameter_error(&rejection.body_text())),
        }
    }
}

/// Returns the error for a parameter that axum rejected, without the value of the parameter.
fn parameter_error(text: &str) -> ApiError {
    let message = text.split_once("query string: ").map_or(text, |(_, message)| message);
    let quoted = message.strip_prefix("duplicate field `").and_then(|rest| rest.split('`').next());
    if let Some(field) = quoted {
        return ApiError::invalid(field, "is given more than once");
    }
    match message.split_once(": ").filter(|(field, _)| !field.contains([' ', '`'])) {
        Some((field, why)) if why.contains("duplicate field") => {
            ApiError::invalid(field, "is given more than once")
        }
        Some((field, why)) if why.contains("digit") || why.contains("number") || why.contains("integer") => {
            ApiError::invalid(field, "must be a whole number in the range of the parameter")
        }
        Some((field, why)) => ApiError::invalid(field, without_values(why)),
        None => ApiError::invalid("query", without_values(message)),
    }
}

/// Path parameters.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(params)) => Ok(Self(params)),
            Err(_) => Err(ApiError::invalid("path", "has a part that is not valid UTF-8 text")),
        }
    }
}

/// The query of a list, with the rules for its limit.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct PageParams(holdpoint_api::Page);

impl Deref for PageParams {
    type Target = holdpoint_api::Page;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for PageParams {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl PageParams {
    /// Returns the number of rows to read: one more than the page shows, to detect a next page.
    pub(crate) fn rows(&self) -> Result<u64, ApiError> {
        Ok(self.limit()? + 1)
    }

    /// Truncates the rows to the page. Returns true if there are more.
    pub(crate) fn truncate<T>(&self, found: &mut Vec<T>) -> Result<bool, ApiError> {
        let limit = usize::try_from(self.limit()?).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        Ok(more)
    }

    pub(crate) fn limit(&self) -> Result<u64, ApiError> {
        let max = holdpoint_api::Page::LIMIT_MAX;
        match self.limit {
            None => Ok(holdpoint_api::Page::LIMIT_DEFAULT),
            Some(limit) if (1..=max).contains(&limit) => Ok(limit),
            Some(_) => Err(ApiError::invalid("limit", format!("must be 1 to {max}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use holdpoint_core::StrictValue;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NamedBody {
        #[serde(rename = "name")]
        _name: String,
        #[serde(default, rename = "many")]
        _many: Vec<u8>,
    }

    #[test]
    fn an_error_of_a_body_does_not_repeat_its_values() {
        let error_of = |body: &str| match parse::<NamedBody>(body.as_bytes()) {
            Ok(_) => panic!("{body} was accepted"),
            Err(error) => format!("{error:?}"),
        };
        for (body, words) in [
            (r#"{"name": 7301}"#, "invalid type: integer, expected a string at line 1"),
            (r#"{"name": "a", "many": "hunter2"}"#, "invalid type: string, expected a sequence at line 1"),
            (r#"{"name": "a", "many": "hunter2, expected `hunter2`"}"#, "string, expected a sequence at"),
            (r#"{"name": "a", "many": [7301]}"#, "invalid value: integer, expected u8 at line 1"),
            (r#"{"name": "a", "hunter2": 1}"#, "unknown field, expected `name` or `many` at line 1"),
            (r#"{}"#, "missing field `name`"),
            (r#"{"name": "a", "name": "b"}"#, "duplicate field `name`"),
            (r#"{"name": null}"#, "invalid type: null, expected a string"),
            (r#"["hunter2", "hunter2"]"#, "expected an object"),
            (r#"["hunter2", "#, "not valid JSON"),
        ] {
            let error = error_of(body);
            assert!(error.contains(words), "{body}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("7301"), "{body}: {error}");
        }
        let twice = parse::<BTreeMap<String, StrictValue>>(br#"{"a": {"hunter2": 1, "hunter2": 2}}"#);
        let error = format!("{:?}", twice.unwrap_err());
        assert!(error.contains("the key appears twice at line 1") && !error.contains("hunter2"), "{error}");
    }
}
