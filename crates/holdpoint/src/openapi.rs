//! The OpenAPI 3.1 document of this server, generated from the table of routes and the types of `holdpoint-api`.
//! `docs/openapi.json` is a copy of it, and a test compares the two.

mod components;
mod shared;

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use holdpoint_api::basics::OpenApi;
use serde_json::{Map, Value, json};

use crate::app;
use crate::auth::Access;
use crate::routes::{Content, Operation, Route};
use components::Components;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get_public("/v1/openapi.json", "openapi", serve)
            .summary("Get the OpenAPI document of this server")
            .response::<OpenApi>(200),
    ]
}

async fn serve() -> impl IntoResponse {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    let headers =
        [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "public, max-age=300")];
    (headers, TEXT.as_str())
}

/// Returns the schemas of all documents by name, including those that no operation uses: payloads of events, bodies of
/// webhooks and callbacks, answers, and data of holds.
pub(crate) fn schemas() -> Map<String, Value> {
    let mut components = Components::new();
    for route in app::routes() {
        describe(&route.operation, &mut components);
    }
    components.add_others();
    components.take()
}

pub(crate) fn document() -> Value {
    let operations: Vec<Operation> = app::routes().into_iter().map(|route| route.operation).collect();
    let mut components = Components::new();
    let described: Vec<Value> =
        operations.iter().map(|operation| describe(operation, &mut components)).collect();
    let schemas = Value::Object(components.take());
    let mut paths = Map::new();
    for (operation, mut shown) in operations.iter().zip(described) {
        link(operation, &operations, &schemas, &mut shown["responses"]);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = shown;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdpoint",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Hold points for agents and workflows: an OpenWOP v1 host, its queues and its keys. \
                A security requirement names the scopes that the key must have.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key. A browser that has signed in sends the cookie of its session instead."}},
            "parameters": shared::parameters(),
            "responses": shared::responses(&operations),
            "schemas": schemas,
        },
    })
}

fn describe(operation: &Operation, components: &mut Components) -> Value {
    let mut shown = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "security": security(operation.access),
        "responses": responses(operation, components),
    });
    let in_path = operation.path_parameters().into_iter().map(|name| {
        json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
    });
    let key = operation.idempotent.then(|| reference("parameters", shared::IDEMPOTENCY_KEY));
    let others = operation.parameters.iter();
    let others = others.flat_map(|(place, schema)| components.parameters(*place, *schema));
    let parameters: Vec<Value> = in_path.chain(key).chain(others).collect();
    if !parameters.is_empty() {
        shown["parameters"] = json!(parameters);
    }
    if operation.deprecated {
        shown["deprecated"] = json!(true);
    }
    if let Some(body) = operation.body {
        let schema = components.request(body.schema);
        shown["requestBody"] =
            json!({"required": body.required, "content": {"application/json": {"schema": schema}}});
    }
    shown
}

/// Returns the security requirements. They are alternatives; the scopes within one are all required.
fn security(access: Access) -> Value {
    match access {
        Access::Public => json!([]),
        Access::Any(scopes) => scopes.iter().map(|scope| json!({"key": [scope]})).collect(),
        Access::All(scopes) => json!([{"key": scopes}]),
    }
}

fn responses(operation: &Operation, components: &mut Components) -> Value {
    let mut responses = Map::new();
    for (status, content) in &operation.responses {
        let shown = responses.entry(status.to_string()).or_insert_with(|| json!({"description": "Done."}));
        match content {
            Content::Json(schema) => {
                shown["content"]["application/json"] = json!({"schema": components.response(*schema)});
            }
            // The schema has no type, because the body is text: a generated client returns the text or parses the data
            // of each event. A reader that parses events into objects, such as the fuzzer, applies `then` to each.
            Content::Events(schema) => {
                let event = components.response(*schema);
                shown["content"]["text/event-stream"] =
                    json!({"schema": {"if": {"type": "object"}, "then": event}});
            }
            Content::Text(media) => shown["content"][*media] = json!({"schema": {"type": "string"}}),
            Content::Empty => {}
        }
    }
    for status in operation.errors() {
        responses.insert(status.to_string(), reference("responses", &shared::response_name(status)));
    }
    Value::Object(responses)
}

/// Adds OpenAPI links from the response of a POST to the operations whose path parameters it has. Streams are left out,
/// because a client that follows links would wait for their end.
fn link(from: &Operation, operations: &[Operation], schemas: &Value, responses: &mut Value) {
    for (status, _) in from.responses.iter().filter(|_| from.method == "post") {
        let status = status.to_string();
        let schema = &responses[&status]["content"]["application/json"]["schema"]["$ref"];
        let Some(schema) = schema.as_str().and_then(|path| path.rsplit('/').next()).map(str::to_owned) else {
            continue;
        };
        let has = |name: &&str| schemas[&schema]["properties"].get(*name).is_some();
        for to in operations
            .iter()
            .filter(|to| matches!(to.responses[..], [(_, Content::Json(_) | Content::Empty), ..]))
        {
            let names = to.path_parameters();
            if names.is_empty() || !names.iter().all(has) {
                continue;
            }
            let parameters: Map<String, Value> = names
                .iter()
                .map(|name| ((*name).to_owned(), json!(format!("$response.body#/{name}"))))
                .collect();
            responses[&status]["links"][to.id] = json!({"operationId": to.id, "parameters": parameters});
        }
    }
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_resolves_and_every_component_is_used() {
        let document = document();
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let mut there = BTreeSet::new();
        for kind in ["parameters", "responses", "schemas"] {
            let names = document["components"][kind].as_object().unwrap().keys();
            there.extend(names.map(|name| format!("#/components/{kind}/{name}")));
        }
        assert_eq!(used, there);
    }

    #[test]
    fn every_operation_has_a_unique_id_a_summary_and_a_response() {
        let mut ids = BTreeSet::new();
        for Route { operation, .. } in app::routes() {
            assert!(ids.insert(operation.id), "duplicate id {}", operation.id);
            assert!(!operation.summary.is_empty(), "{} has no summary", operation.id);
            assert!(!operation.responses.is_empty(), "{} has no response", operation.id);
        }
    }
}
