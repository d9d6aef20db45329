//! Checks responses against the OpenAPI document of the server.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::harness::Client;

pub(crate) struct Contract {
    pub document: Value,
}

/// One operation of the document.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub id: String,
    /// The HTTP method in upper case.
    pub method: String,
    pub path: String,
    /// Alternatives, each a set of scopes that are required together. Empty if the route requires no key.
    pub scopes: Vec<Vec<String>>,
    described: Value,
}

impl Contract {
    pub(crate) fn of(client: &Client) -> Self {
        let found = client.with_key(None).get("/v1/openapi.json");
        assert_eq!(found.status, 200);
        Self { document: found.body }
    }

    pub(crate) fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (path, methods) in self.document["paths"].as_object().unwrap() {
            for (method, described) in methods.as_object().unwrap() {
                let alternatives = described["security"].as_array().unwrap().iter();
                let scopes = alternatives.map(|one| serde_json::from_value(one["key"].clone()).unwrap());
                operations.push(Operation {
                    id: described["operationId"].as_str().unwrap().to_owned(),
                    method: method.to_uppercase(),
                    path: path.clone(),
                    scopes: scopes.collect(),
                    described: described.clone(),
                });
            }
        }
        operations.sort_by(|one, other| (&one.path, &one.method).cmp(&(&other.path, &other.method)));
        operations
    }

    /// Panics if the document does not describe this response.
    pub(crate) fn check(&self, operation: &Operation, answer: &ureq::http::Response<String>) {
        let status = answer.status().as_u16().to_string();
        let shown = format!("{} {} {status}: {}", operation.id, operation.path, answer.body());
        let mut response = &operation.described["responses"][&status];
        assert!(!response.is_null(), "an undocumented status: {shown}");
        if let Some(reference) = response["$ref"].as_str() {
            response = self.document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        }
        for name in response["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
            assert!(answer.headers().contains_key(name), "{name} is missing: {shown}");
        }
        let Some(contents) = response["content"].as_object() else {
            assert!(answer.body().is_empty(), "an undocumented body: {shown}");
            return;
        };
        let media = answer.headers()["content-type"].to_str().unwrap().split(';').next().unwrap();
        let content = contents.get(media).unwrap_or_else(|| panic!("undocumented {media}: {shown}"));
        if media == "application/json" {
            let body: Value = serde_json::from_str(answer.body()).unwrap();
            let flaws: Vec<String> =
                self.validator(&content["schema"]).iter_errors(&body).map(|flaw| flaw.to_string()).collect();
            assert!(flaws.is_empty(), "{shown} does not match the schema: {flaws:?}");
        }
    }

    fn validator(&self, schema: &Value) -> Validator {
        let mut schema = schema.clone();
        schema["components"] = json!({"schemas": self.document["components"]["schemas"]});
        jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
    }
}
