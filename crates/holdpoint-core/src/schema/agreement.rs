//! Property test: the check with a work budget agrees with the crate `jsonschema` on small random schemas and values.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::Schema;

const NAMES: [&str; 3] = ["a", "b", "ab"];
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const TARGETS: [&str; 4] = ["#/$defs/one", "#/$defs/two", "#one", "#"];
/// Keywords with one subschema.
const SINGLE: [&str; 7] = [
    "not",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
];

fn value() -> impl Strategy<Value = Value> {
    let scalars =
        [json!(null), json!(true), json!(0), json!(1), json!(1.0), json!(2.5), json!("a"), json!("ab")];
    select(scalars.to_vec()).prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(&NAMES[..]), inner), 0..4).prop_map(object),
        ]
    })
}

fn object(members: Vec<(&str, Value)>) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn assertion() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        select(&TYPES[..]).prop_map(|name| json!({ "type": name })),
        vec(value(), 1..3).prop_map(|values| json!({ "enum": values })),
        value().prop_map(|value| json!({ "const": value })),
        select(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"][..])
            .prop_map(|name| json!({ name: 1 })),
        select(&["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"][..])
            .prop_map(|name| json!({ name: 2 })),
        Just(json!({"uniqueItems": true})),
        select(&NAMES[..]).prop_map(|name| json!({ "required": [name] })),
        select(&NAMES[..]).prop_map(|name| json!({ "dependentRequired": {name: ["a"]} })),
        select(&["^a", "b$", "^(a|b)+$", "\\d"][..]).prop_map(|text| json!({ "pattern": text })),
        Just(json!({"format": "date", "contentEncoding": "base64", "title": "no assertion"})),
    ]
}

/// References in definitions apply only to parts of the value, so that none is circular.
fn reference() -> impl Strategy<Value = Value> {
    prop_oneof![
        select(&TARGETS[..3]).prop_map(|target| json!({ "$ref": target })),
        Just(json!({"$dynamicRef": "#dynamic"})),
        select(&TARGETS[..]).prop_map(|target| json!({ "items": {"$ref": target} })),
        select(&TARGETS[..]).prop_map(|target| json!({ "properties": {"a": {"$ref": target}} })),
    ]
}

fn schema(leaves: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    leaves
        .prop_recursive(4, 24, 3, |inner| {
            let list = || vec(inner.clone(), 1..3);
            let named = || vec((select(&NAMES[..]), inner.clone()), 1..3).prop_map(object);
            prop_oneof![
                (select(&["allOf", "anyOf", "oneOf", "prefixItems"][..]), list())
                    .prop_map(|(name, list)| json!({ name: list })),
                (select(&["properties", "dependentSchemas", "dependencies"][..]), named())
                    .prop_map(|(name, named)| json!({ name: named })),
                (select(&SINGLE[..]), inner.clone()).prop_map(|(name, schema)| json!({ name: schema })),
                (select(&["^a", "b"][..]), inner.clone())
                    .prop_map(|(text, schema)| json!({ "patternProperties": {text: schema} })),
                (inner.clone(), 0..3, 1..3).prop_map(
                    |(item, min, max)| json!({"contains": item, "minContains": min, "maxContains": max})
                ),
                (inner.clone(), inner.clone(), inner.clone())
                    .prop_map(|(test, yes, no)| json!({"if": test, "then": yes, "else": no})),
                vec(inner.clone(), 2..4).prop_map(joined),
            ]
        })
        .boxed()
}

/// Puts the keywords of several schemas into one.
fn joined(schemas: Vec<Value>) -> Value {
    let members = schemas.into_iter().filter_map(|schema| match schema {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect())
}

fn document() -> impl Strategy<Value = Value> {
    let root = schema(prop_oneof![3 => assertion(), 2 => reference()].boxed());
    let definition = || schema(assertion().boxed());
    (root, definition(), definition(), definition()).prop_map(|(root, one, two, dynamic)| {
        let with = |schema: Value, member: &str, name: &str| {
            let mut members = match schema {
                Value::Object(members) => members,
                Value::Bool(false) => Map::from_iter([("not".to_owned(), json!(true))]),
                _ => Map::new(),
            };
            members.insert(member.to_owned(), json!(name));
            Value::Object(members)
        };
        let two = joined(vec![two, json!({"properties": {"b": {"$ref": "#/$defs/one"}}})]);
        let mut root = joined(vec![root, json!({"title": "root"})]);
        root["$defs"] = json!({
            "one": with(one, "$anchor", "one"),
            "two": two,
            "three": with(dynamic, "$dynamicAnchor", "dynamic"),
        });
        root
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_budgeted_check_agrees_with_the_crate(schema in document(), values in vec(value(), 1..6)) {
        let plain = jsonschema::draft202012::new(&schema).expect("a valid schema");
        let budgeted = Schema::compile(&schema).expect("a valid schema");
        for value in values {
            let result = budgeted.check(&value);
            prop_assert_eq!(result.is_ok(), plain.is_valid(&value), "{} {:?}", value, result);
        }
    }
}
