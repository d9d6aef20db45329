//! Instants as every protocol here writes them: ISO 8601 in UTC with milliseconds.

use holdpoint_core::Timestamp;
use serde::Serializer;

pub(crate) fn iso<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

pub(crate) fn optional_iso<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => iso(at, serializer),
        None => serializer.serialize_none(),
    }
}
