//! Generates the reference page of the HTTP API from the OpenAPI document.

use holdpoint_api::ErrorCode;
use serde_json::Value;

use super::{GENERATED, cell, table};

const INTRODUCTION: &str = "\
# HTTP API

Every operation and every type of the API. [http-api.md](../http-api.md) explains how they work together, and
[openapi.json](../openapi.json) is the same for programs. Requests that change state accept an `Idempotency-Key`,
except those of AG-UI, chat and sessions. Errors have the type [Error](#error) and one
of the [error codes](#error-codes). [schemas.json](schemas.json) has the types as JSON Schemas, also those of the payloads of
events, of webhooks and of answers.
";

const ERROR_CODES: &str = "\
The member `error` of an [Error](#error). A code keeps its meaning. A client must accept codes that it does not know, because a
newer server may have more. [ErrorDetails](#errordetails) has the members of `details`.
";

pub(super) fn page(document: &Value) -> String {
    let mut page = format!("{GENERATED}\n{INTRODUCTION}\n## Operations\n");
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(methods) {
            page += &operation_text(document, &format!("{} {path}", method.to_uppercase()), operation);
        }
    }
    page += &error_codes();
    page += "\n## Types\n";
    for (name, schema) in members(&document["components"]["schemas"]) {
        page += &type_text(name, schema);
    }
    page
}

fn error_codes() -> String {
    let rows = ErrorCode::ALL.iter().map(|code| {
        let statuses: Vec<String> = code.statuses().iter().map(ToString::to_string).collect();
        vec![format!("`{code}`"), statuses.join(" or "), cell(code.meaning())]
    });
    format!("\n## Error codes\n\n{ERROR_CODES}\n{}", table(&["code", "status", "meaning"], rows))
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn operation_text(document: &Value, title: &str, operation: &Value) -> String {
    let mut text = format!("\n### {title}\n\n{}.", operation["summary"].as_str().unwrap_or_default());
    if operation["deprecated"] == true {
        text += " Deprecated.";
    }
    text += &format!(
        " Operation `{}`. {}\n",
        operation["operationId"].as_str().unwrap_or_default(),
        scopes(operation)
    );
    let parameters = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|parameter| resolve(document, parameter));
    let rows: Vec<Vec<String>> = parameters
        .filter(|parameter| parameter["name"] != "Idempotency-Key")
        .map(|parameter| {
            let required = if parameter["required"] == true { ", required" } else { "" };
            let place = parameter["in"].as_str().unwrap_or_default();
            vec![
                format!("`{}`", parameter["name"].as_str().unwrap_or_default()),
                format!("{place}{required}"),
                type_of(&parameter["schema"]),
                cell(parameter["description"].as_str().unwrap_or_default()),
            ]
        })
        .collect();
    if !rows.is_empty() {
        text += &format!("\n{}", table(&["parameter", "in", "type", "meaning"], rows));
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let optional = if body["required"] == true { "" } else { " (optional)" };
        text += &format!("\nBody{optional}: {}\n", type_of(&body["content"]["application/json"]["schema"]));
    }
    let mut errors = Vec::new();
    for (status, response) in members(&operation["responses"]) {
        if response.get("$ref").is_some() {
            errors.push(status.as_str());
            continue;
        }
        let contents: Vec<String> = members(&response["content"])
            .map(|(media, content)| match media.as_str() {
                "application/json" => type_of(&content["schema"]),
                media => {
                    let schema = &content["schema"];
                    format!("{} (`{media}`)", type_of(schema.get("then").unwrap_or(schema)))
                }
            })
            .collect();
        let content = if contents.is_empty() { "no content".to_owned() } else { contents.join(" or ") };
        text += &format!("\nResponse {status}: {content}\n");
    }
    if !errors.is_empty() {
        text += &format!("\nErrors: {}\n", errors.join(", "));
    }
    text
}

fn scopes(operation: &Value) -> String {
    let alternatives = operation["security"].as_array().into_iter().flatten().map(|requirement| {
        let scopes = requirement["key"].as_array().into_iter().flatten().filter_map(Value::as_str);
        scopes.map(|scope| format!("`{scope}`")).collect::<Vec<_>>().join(" and ")
    });
    let alternatives: Vec<String> = alternatives.collect();
    match &alternatives[..] {
        [] => "No key is needed.".to_owned(),
        [only] if only.is_empty() => "Any key.".to_owned(),
        _ => format!("Scope: {}.", alternatives.join(" or ")),
    }
}

fn type_text(name: &str, schema: &Value) -> String {
    let mut text = format!("\n### {name}\n");
    if let Some(description) = schema["description"].as_str() {
        text += &format!("\n{description}\n");
    }
    let required = &schema["required"];
    let rows: Vec<Vec<String>> = members(&schema["properties"])
        .map(|(member, schema)| {
            let is_required =
                required.as_array().is_some_and(|names| names.contains(&Value::from(member.as_str())));
            let mark = if is_required { " (required)" } else { "" };
            let description = schema["description"].as_str().unwrap_or_default();
            vec![format!("`{member}`{mark}"), type_of(schema), cell(description)]
        })
        .collect();
    match rows.is_empty() {
        true => text += &format!("\nType: {}\n", type_of(schema)),
        false => text += &format!("\n{}", table(&["member", "type", "meaning"], rows)),
    }
    text
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let path = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
    path.and_then(|path| document.pointer(path)).unwrap_or(value)
}

/// Describes a schema in a few words.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(texts) = schema["enum"].as_array() {
        return texts
            .iter()
            .map(|text| format!("`{}`", cell(&text.to_string())))
            .collect::<Vec<_>>()
            .join(", ");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(options) = schema[several].as_array() {
            return options.iter().map(type_of).collect::<Vec<_>>().join(" or ");
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let shown = types.iter().map(|name| match *name {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "string" if schema["format"] == "date-time" => "instant".to_owned(),
        name => name.to_owned(),
    });
    let shown = shown.collect::<Vec<_>>().join(" or ");
    let shown = if shown.is_empty() { "any JSON".to_owned() } else { shown };
    let limits = ["minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "default"]
        .iter()
        .filter_map(|name| schema.get(*name).map(|value| format!("{name} {value}")));
    let limits: Vec<String> = limits.collect();
    if limits.is_empty() { shown } else { format!("{shown}; {}", limits.join(", ")) }
}
