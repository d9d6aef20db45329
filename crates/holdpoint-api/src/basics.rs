//! Types that several resources share.

use std::borrow::Cow;
use std::fmt;

use holdpoint_ids::{StrictValue, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// An instant, as ISO 8601 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub Timestamp);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.to_iso().as_str())
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        let at = Timestamp::parse_rfc3339(&text);
        at.map(Self).ok_or_else(|| D::Error::custom("expected an instant such as 2026-05-01T10:00:00Z"))
    }
}

impl JsonSchema for Instant {
    fn schema_name() -> Cow<'static, str> {
        "Instant".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "format": "date-time",
            "description": "An instant, as ISO 8601 in UTC with milliseconds.",
        })
    }
}

/// The pattern of a text without control characters.
pub(crate) const NO_CONTROL: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

/// Reads null as the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads null with the type of the member, instead of as an absent member: null is a value of that type, or an error.
pub(crate) fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// An empty object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}

/// A feature without details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Supported {
    /// True if the server has the feature.
    pub supported: bool,
}

/// The query of every list that has pages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// The largest number of entries in a page.
    #[schemars(range(min = 1, max = Page::LIMIT_MAX), extend("default" = Page::LIMIT_DEFAULT))]
    pub limit: Option<u64>,
    /// The nextCursor of the previous page.
    pub cursor: Option<String>,
}

impl Page {
    /// The default number of entries in a page.
    pub const LIMIT_DEFAULT: u64 = 50;
    /// The maximum number of entries in a page.
    pub const LIMIT_MAX: u64 = 200;
}

/// An OpenAPI 3.1 document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenApi {
    /// The version of OpenAPI.
    pub openapi: String,
    /// The title and the version of the API.
    pub info: Object,
    /// The paths with their operations.
    pub paths: Object,
}

/// A JSON object with members of any kind. A repeated key is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Object(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match StrictValue::deserialize(deserializer)?.0 {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(D::Error::custom("expected an object")),
        }
    }
}

impl JsonSchema for Object {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// Returns whether a member of a request has its default and can be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
