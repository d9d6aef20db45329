//! Components that no protocol owns: the envelope of errors, pages of lists.

use serde_json::{Map, Value, json};

use crate::routes::Operation;

/// The statuses of errors, with what they mean.
const ERRORS: [(u16, &str); 13] = [
    (400, "Body, query, path, header or value is not as it must be."),
    (401, "No key, an unknown one, or one that was revoked or has expired."),
    (403, "The key may not do this: details.scopeRequired names the scope, where it is one that is missing."),
    (404, "There is no such thing in this tenant."),
    (408, "The body did not arrive in time."),
    (409, "Somebody else came first, or the state does not allow it."),
    (410, "It was there and is no more."),
    (413, "The body or a value in it is over its limit."),
    (422, "It is understood and cannot be done."),
    (429, "The key calls more often than it may."),
    (500, "Something broke; the log has more under details.correlationId."),
    (501, "Not there in this build."),
    (503, "The server cannot do it now."),
];

pub(super) fn response_name(status: u16) -> String {
    format!("Error{status}")
}

/// Those that some route has.
pub(super) fn responses(operations: &[Operation]) -> Value {
    let used = |status: u16| operations.iter().any(|operation| operation.errors().contains(&status));
    let shown = ERRORS.iter().filter(|(status, _)| used(*status)).map(|(status, description)| {
        let mut response = json!({
            "description": description,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        });
        if [429, 503].contains(status) {
            response["headers"] = json!({"Retry-After": {
                "description": "Whole seconds.", "required": true, "schema": {"type": "integer", "minimum": 1},
            }});
        }
        (response_name(*status), response)
    });
    Value::Object(shown.collect::<Map<_, _>>())
}

pub(super) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

pub(super) fn parameters() -> Value {
    json!({
        IDEMPOTENCY_KEY: {
            "name": IDEMPOTENCY_KEY, "in": "header",
            "description": "A request that is sent again under the same key within 24 hours is not carried out \
                again: it gets the same answer, with the header openwop-Idempotent-Replay.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        },
    })
}
