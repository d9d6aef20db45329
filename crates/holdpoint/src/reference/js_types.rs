//! Generates JSDoc types for the inbox page from the schemas. Editors and `tsc --checkJs` read them; browsers do not.

use serde_json::{Map, Value};

const INTRODUCTION: &str = "\
//! Generated: cargo run -- reference docs
//! The types of the documents that the API sends and accepts.
";

pub(super) fn file(schemas: &Map<String, Value>) -> String {
    let types = schemas.iter().map(|(name, schema)| typedef(name, schema));
    format!("{INTRODUCTION}{}\nexport {{}};\n", types.collect::<String>())
}

fn typedef(name: &str, schema: &Value) -> String {
    let mut lines: Vec<String> = schema["description"].as_str().map(comment).into_iter().collect();
    match parts_of_object(schema).filter(|_| alternatives(schema).is_none()) {
        Some(members) => {
            lines.push(format!("@typedef {{Object}} {name}"));
            lines.extend(members.iter().map(|(member, part)| property(schema, member, part)));
        }
        None => lines.push(format!("@typedef {{{}}} {name}", type_of(schema))),
    }
    let lines: String = lines.iter().map(|line| format!(" * {line}\n")).collect();
    format!("\n/**\n{lines} */\n")
}

fn property(schema: &Value, member: &str, part: &Value) -> String {
    let name = if is_required(schema, member) { member.to_owned() } else { format!("[{member}]") };
    let meaning = part["description"].as_str().map(|text| format!(" {}", comment(text)));
    format!("@property {{{}}} {name}{}", type_of(part), meaning.unwrap_or_default())
}

/// Returns a text on one line that does not end the comment.
fn comment(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "*\\/")
}

fn is_required(schema: &Value, member: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.contains(&Value::from(member)))
}

fn parts_of_object(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

/// Returns the alternatives if at least one of them is a type. Other alternatives only restrict the members.
fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    let options = ["anyOf", "oneOf"].iter().find_map(|name| schema[*name].as_array())?;
    let is_type = |option: &Value| {
        ["$ref", "type", "const", "enum", "properties"].iter().any(|name| option.get(name).is_some())
    };
    options.iter().any(is_type).then_some(options)
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(text) = schema.get("const") {
        return text.to_string();
    }
    if let Some(texts) = schema["enum"].as_array() {
        return texts.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    let own = parts_of_object(schema).map(|members| object(schema, members));
    match (own, alternatives(schema)) {
        (Some(own), Some(options)) => format!("{own} & ({})", union(options)),
        (Some(own), None) => own,
        (None, Some(options)) => union(options),
        (None, None) => simple(schema),
    }
}

fn union(options: &[Value]) -> String {
    options.iter().map(type_of).collect::<Vec<_>>().join(" | ")
}

fn object(schema: &Value, members: &Map<String, Value>) -> String {
    let member = |(name, part): (&String, &Value)| {
        let mark = if is_required(schema, name) { "" } else { "?" };
        format!("{name}{mark}: {}", type_of(part))
    };
    format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
}

fn simple(schema: &Value) -> String {
    let named = |name: &str| match name {
        "integer" | "number" => "number".to_owned(),
        "array" => match type_of(&schema["items"]) {
            of if of.contains([' ', '{']) => format!("Array<{of}>"),
            of => format!("{of}[]"),
        },
        "object" => match schema.get("additionalProperties").filter(|part| part.is_object()) {
            Some(part) => format!("Object<string, {}>", type_of(part)),
            None => "Object<string, any>".to_owned(),
        },
        name => name.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(named).collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}
