//! Component schemas of the OpenAPI document, generated from the types of `holdpoint-api`.

use holdpoint_api::chat::{ChatDelta, ChatMessage, ChatProgress, ChatToolCall, ChatToolResult, ChatUsage};
use holdpoint_api::holds::{HoldApproval, HoldQuestions};
use holdpoint_api::interrupts::{ApprovalAnswer, CallAnswer, ClarificationAnswer, EditedCall, SideQuestion};
use holdpoint_api::payloads::EventPayload;
use holdpoint_api::webhooks::{DeliveryHead, InterruptCallback};
use holdpoint_api::{Error, Instant, agui};
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::routes::{ParameterLocation, SchemaOf};

/// The schemas of requests and of responses.
pub(super) struct Components {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Components {
    pub(super) fn new() -> Self {
        let generator = |contract: Contract| {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            if contract == Contract::Serialize {
                settings.transforms.push(Box::new(RecursiveTransform(omit_null)));
            }
            settings.transforms.push(Box::new(Simplify));
            settings.contract = contract;
            settings.into_generator()
        };
        let mut responses = generator(Contract::Serialize);
        // Every operation refers to errors. Instants are also in schemas that are not generated from types.
        responses.subschema_for::<Error>();
        responses.subschema_for::<Instant>();
        Self { requests: generator(Contract::Deserialize), responses }
    }

    pub(super) fn request(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.requests).to_value()
    }

    pub(super) fn response(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.responses).to_value()
    }

    /// Adds the documents that no operation uses.
    pub(super) fn add_others(&mut self) {
        macro_rules! add {
            ($($document:ty),+ $(,)?) => {
                $(self.responses.subschema_for::<$document>();)+
            };
        }
        add!(EventPayload<'_>, DeliveryHead, InterruptCallback, SideQuestion<'_>, agui::Frame, ChatProgress);
        add!(ChatDelta, ChatMessage, ChatToolCall, ChatToolResult, ChatUsage);
        add!(ApprovalAnswer<'_>, EditedCall<'_>, CallAnswer<'_>, ClarificationAnswer<'_>);
        add!(HoldApproval<'_>, HoldQuestions<'_>);
    }

    /// Returns one parameter for each member of a type.
    pub(super) fn parameters(&mut self, place: ParameterLocation, schema: SchemaOf) -> Vec<Value> {
        let mut of_type = schema(&mut self.requests);
        omit_null(&mut of_type);
        Simplify.transform(&mut of_type);
        let required = of_type.get("required").cloned().unwrap_or_default();
        let is_required = |name: &str| required.as_array().is_some_and(|names| names.contains(&json!(name)));
        let members = of_type.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let shown = |(name, mut schema): (String, Value)| {
            let mut shown = json!({"name": name, "in": place.as_str()});
            if let Some(description) =
                schema.as_object_mut().and_then(|schema| schema.shift_remove("description"))
            {
                shown["description"] = description;
            }
            for keyword in ["style", "explode"] {
                if let Some(set) = schema.as_object_mut().and_then(|schema| schema.shift_remove(keyword)) {
                    shown[keyword] = set;
                }
            }
            if is_required(&name) {
                shown["required"] = json!(true);
            }
            shown["schema"] = schema;
            shown
        };
        members.into_iter().map(shown).collect()
    }

    /// Returns the schemas of all used types, by name. A type of both requests and responses has one schema.
    pub(super) fn take(&mut self) -> Map<String, Value> {
        let mut all = self.responses.take_definitions(true);
        for (name, schema) in self.requests.take_definitions(true) {
            let known = all.entry(name.clone()).or_insert_with(|| schema.clone());
            assert_eq!(*known, schema, "{name} differs between requests and responses; split the type");
        }
        all
    }
}

/// Removes null from the types of optional members: responses omit such members.
fn omit_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, member) in members {
        if required.as_array().is_some_and(|names| names.contains(&json!(name))) {
            continue;
        }
        let Some(member) = member.as_object_mut() else { continue };
        if let Some(Value::Array(types)) = member.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                member["type"] = only.clone();
            }
        }
        if let Some(Value::Array(words)) = member.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(Value::Array(options)) = member.get_mut("anyOf") {
            options.retain(|option| *option != json!({"type": "null"}));
            if let [Value::Object(only)] = &options[..] {
                let only = only.clone();
                member.shift_remove("anyOf");
                member.extend(only);
            }
        }
    }
}

/// Removes details that readers of the document do not need: formats of numbers, and a description for each text of an
/// enum. Writes the forms that client generators support: `{}` instead of `true`, and a nullable enum as two
/// alternatives.
#[derive(Clone, Debug)]
struct Simplify;

impl Transform for Simplify {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.as_bool() == Some(true) {
            schema.ensure_object();
        }
        let Some(members) = schema.as_object_mut() else { return };
        let format = members.get("format").and_then(Value::as_str);
        if format.is_some_and(|name| name.contains("int") || name == "double") {
            members.shift_remove("format");
        }
        if members.get("additionalProperties").is_some_and(|any| *any == json!({})) {
            members.shift_remove("additionalProperties");
        }
        let texts: Option<Vec<Value>> = members.get("oneOf").and_then(Value::as_array).and_then(|options| {
            options
                .iter()
                .map(|option| option.get("const").filter(|text| text.is_string()).cloned())
                .collect()
        });
        if let Some(texts) = texts {
            members.shift_remove("oneOf");
            members.insert("type".to_owned(), json!("string"));
            members.insert("enum".to_owned(), Value::Array(texts));
        }
        split_nullable_enum(members);
    }
}

fn split_nullable_enum(members: &mut Map<String, Value>) {
    let Some(Value::Array(texts)) = members.get_mut("enum") else { return };
    let before = texts.len();
    texts.retain(|text| !text.is_null());
    if texts.len() == before {
        return;
    }
    let texts = members.shift_remove("enum");
    members.shift_remove("type");
    members.insert("anyOf".to_owned(), json!([{"type": "string", "enum": texts}, {"type": "null"}]));
}
