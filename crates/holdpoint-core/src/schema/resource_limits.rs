//! Tests with schemas and values that make a plain validator run for minutes or use gigabytes.

use serde_json::{Map, Value, json};

use super::Schema;
use super::evaluation::{EvaluationError, evaluate};

const TOO_MUCH: &str = "needs too much work";

fn tree_schema() -> Value {
    json!({
        "$ref": "#/$defs/item",
        "$defs": {
            "item": {"anyOf": [{"$ref": "#/$defs/group"}, {"$ref": "#/$defs/list"}]},
            "group": {
                "type": "object",
                "required": ["title"],
                "properties": {"title": {"type": "string"}, "of": {"$ref": "#/$defs/item"}},
            },
            "list": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "of": {"$ref": "#/$defs/item"},
                    "all": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                },
            },
        },
    })
}

fn nested(levels: usize, innermost: Value, outer: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(innermost, |inner, _| outer(inner))
}

/// Returns `$defs` in which each one refers twice to the next: 2^levels evaluations without a cache.
fn doubling(levels: usize, twice: impl Fn(&str) -> Value) -> Value {
    let mut definitions: Map<String, Value> =
        (0..levels).map(|level| (format!("d{level}"), twice(&format!("#/$defs/d{}", level + 1)))).collect();
    definitions.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

fn fault(schema: &Value, value: &Value) -> (String, String) {
    Schema::compile(schema).unwrap().check(value).unwrap_err()
}

#[test]
fn an_invalid_tree_of_many_levels_is_rejected_with_its_path() {
    for levels in [18, 30, 100] {
        let value = nested(levels, json!({"x": 1}), |inner| json!({ "of": inner }));
        let (path, message) = fault(&tree_schema(), &value);
        assert_eq!((path.as_str(), message.as_str()), ("", "the value does not match any schema of anyOf"));
        let value = nested(levels, json!({"x": 1}), |inner| json!({"name": "n", "of": inner}));
        assert_eq!(fault(&tree_schema(), &value), ("/of".repeat(levels), message));
    }
    let wrong = nested(40, json!({"name": 5}), |inner| json!({"name": "n", "of": inner}));
    let (path, message) = fault(&tree_schema(), &wrong);
    assert_eq!((path, message.as_str()), ("/of".repeat(40) + "/name", "the value is not of type \"string\""));
}

#[test]
fn valid_trees_with_hundreds_of_parts_and_many_levels_are_accepted() {
    let schema = Schema::register(&tree_schema()).unwrap();
    let list = nested(60, json!({"name": "leaf"}), |inner| json!({"name": "n", "of": inner}));
    assert_eq!(schema.check(&list), Ok(()));
    let mixed = nested(30, list, |inner| json!({"title": "t", "of": inner}));
    assert_eq!(schema.check(&mixed), Ok(()));
    let bushy =
        nested(9, json!({"title": "leaf"}), |inner| json!({"name": "n", "all": [inner.clone(), inner]}));
    assert_eq!(schema.check(&bushy), Ok(()));
    let wide = json!({"name": "n", "all": vec![json!({"name": "x"}); 2000]});
    assert_eq!(schema.check(&wide), Ok(()));
}

#[test]
fn a_schema_that_unfolds_to_too_many_subschemas_is_not_registered_but_can_be_evaluated() {
    let kinds: [fn(&str) -> Value; 6] = [
        |next| json!({"anyOf": [{"$ref": next}, {"$ref": next}]}),
        |next| json!({"oneOf": [{"$ref": next}, {"$ref": next}]}),
        |next| json!({"allOf": [{"$ref": next}, {"not": {"$ref": next}}]}),
        |next| json!({"if": {"$ref": next}, "then": {"$ref": next}, "else": {"$ref": next}}),
        |next| json!({"$ref": next, "unevaluatedProperties": {"$ref": next}}),
        |next| json!({"dependentSchemas": {"a": {"$ref": next}, "b": {"$ref": next}}}),
    ];
    for twice in kinds {
        let schema = doubling(60, twice);
        let error = Schema::register(&schema).unwrap_err();
        assert!(error.contains("at most 10000"), "{error}");
        let stored = Schema::compile(&schema).unwrap();
        let result = stored.check(&json!({"a": 1, "b": [1, 2]}));
        assert!(result.is_ok() || !result.unwrap_err().1.contains(TOO_MUCH));
    }
    assert!(Schema::register(&doubling(10, kinds[0])).is_ok());
}

#[test]
fn the_size_of_a_recursive_schema_is_finite() {
    assert!(Schema::register(&tree_schema()).is_ok());
    assert!(Schema::register(&json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}})).is_ok());
}

#[test]
fn every_applicator_is_bounded_for_deep_and_bushy_values() {
    let again = json!({"$ref": "#"});
    let twice = json!([again, again]);
    let inside = json!({"properties": {"of": again}, "items": again, "required": ["x"]});
    let schemas = [
        json!({"anyOf": [inside, {"properties": {"of": again}, "items": again, "required": ["y"]}]}),
        json!({"oneOf": [inside, {"patternProperties": {"^o": again}, "items": again, "required": ["y"]}]}),
        json!({"properties": {"of": {"allOf": twice}}, "items": {"allOf": twice}, "required": ["x"]}),
        json!({"properties": {"of": {"not": {"not": again}}}, "items": {"not": again}, "required": ["x"]}),
        json!({"properties": {"of": {"if": again, "then": again, "else": again}}, "required": ["x"]}),
        json!({"dependentSchemas": {"of": {"properties": {"of": {"anyOf": twice}}}}, "required": ["x"]}),
        json!({"anyOf": [{"contains": again, "minContains": 3}, {"contains": again}], "required": ["x"]}),
        json!({"$dynamicAnchor": "d", "additionalProperties": {"anyOf": [{"$dynamicRef": "#d"}, {"$dynamicRef": "#d"}]}, "required": ["x"]}),
        json!({"anyOf": [inside, {"properties": {"of": again}}], "unevaluatedProperties": again, "unevaluatedItems": again, "required": ["x"]}),
        json!({"propertyNames": again, "properties": {"of": {"anyOf": twice}}, "not": {"type": "string"}}),
        json!({"uniqueItems": true, "items": {"anyOf": twice}, "properties": {"of": {"anyOf": twice}}, "required": ["x"]}),
    ];
    let deep = nested(100, json!({"z": 1}), |inner| json!({ "of": inner }));
    let arrays = nested(12, json!({"z": 1}), |inner| json!([inner.clone(), inner]));
    for schema in schemas {
        let compiled = Schema::register(&schema).unwrap();
        for value in [&deep, &arrays] {
            let _ = compiled.check(value);
        }
        let (_, message) = compiled.check(&deep).unwrap_err();
        assert!(!message.contains(TOO_MUCH), "{schema}: {message}");
    }
}

#[test]
fn work_that_multiplies_schema_and_value_stops_at_the_budget() {
    let branches: Vec<Value> = (0..1500).map(|n| json!({"required": [format!("m{n}")]})).collect();
    let schema = Schema::register(&json!({"items": {"anyOf": branches}})).unwrap();
    let values = json!(vec![json!({"m1499": 1}); 5000]);
    let (path, message) = schema.check(&values).unwrap_err();
    assert_eq!(path, "");
    assert!(message.contains(TOO_MUCH), "{message}");
    assert_eq!(schema.check(&json!(vec![json!({"m1499": 1}); 10])), Ok(()));
    let unique = json!({"items": {"$ref": "#"}, "uniqueItems": true});
    let unique = Schema::register(&json!({"allOf": vec![unique; 40]})).unwrap();
    assert!(unique.check(&json!((0..10_000).collect::<Vec<_>>())).unwrap_err().1.contains(TOO_MUCH));
}

#[test]
fn large_plain_values_are_accepted() {
    let schema = json!({"items": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]}});
    let schema = Schema::register(&schema).unwrap();
    assert_eq!(schema.check(&json!((0..200_000).collect::<Vec<_>>())), Ok(()));
    let text = Schema::register(&json!({"type": "string", "pattern": "^[a-z ]*$", "maxLength": 100_000}));
    assert_eq!(text.unwrap().check(&json!("a b ".repeat(16 * 1024))), Ok(()));
}

#[test]
fn unique_items_compares_nested_values() {
    let schema = Schema::register(&json!({"uniqueItems": true})).unwrap();
    assert_eq!(schema.check(&json!([1, [1], [[1]], "1", {"a": 1}, null])), Ok(()));
    assert!(schema.check(&json!([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}])).is_err());
}

#[test]
fn chains_of_references_and_deep_values_do_not_exhaust_the_stack() {
    let mut definitions: Map<String, Value> =
        (0..3000).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}))).collect();
    definitions.insert("d3000".to_owned(), json!({"type": "string"}));
    let chain = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    let stored = Schema::compile(&chain).unwrap();
    assert_eq!(stored.check(&json!("x")), Ok(()));
    assert!(stored.check(&json!(1)).unwrap_err().1.contains("string"));
    let definition =
        |n: usize| (format!("d{n}"), json!({"type": "string", "$ref": format!("#/$defs/d{}", n + 1)}));
    let mut definitions: Map<String, Value> = (0..1000).map(definition).collect();
    definitions.insert("d1000".to_owned(), json!({"type": "string"}));
    let stored = Schema::compile(&json!({"$ref": "#/$defs/d0", "$defs": definitions})).unwrap();
    assert_eq!(evaluate(&stored.0, &json!("x")).err(), Some(EvaluationError::TooDeep));
    let value = nested(125, json!({"title": "leaf"}), |inner| json!({"title": "t", "of": inner}));
    assert_eq!(Schema::register(&tree_schema()).unwrap().check(&value), Ok(()));
}

#[test]
fn patterns_that_the_linear_engine_cannot_run_are_not_registered() {
    for pattern in ["^(a+)\\1$", "^(?=x)x", "(?<!a)b", "(((a{99}){99}){99}){99}"] {
        for schema in [json!({ "pattern": pattern }), json!({"patternProperties": {pattern: true}})] {
            let error = Schema::register(&schema).unwrap_err();
            assert!(error.contains("look-around or a back-reference"), "{error}");
        }
    }
    for pattern in ["^\\d{4}-\\d{2}$", "^\\w+@\\w+$", "^[\\p{L} ]{1,64}$", "^(a+)+$"] {
        assert!(Schema::register(&json!({ "pattern": pattern })).is_ok(), "{pattern}");
    }
}

#[test]
fn a_value_whose_check_needs_an_unsupported_stored_pattern_is_rejected() {
    let stored = json!({"properties": {"a": {"not": {"pattern": "^(a+)\\1$"}}, "b": {"type": "integer"}}});
    let stored = Schema::compile(&stored).unwrap();
    assert_eq!(stored.check(&json!({"b": 1})), Ok(()));
    let (_, message) = stored.check(&json!({"a": "x"})).unwrap_err();
    assert!(message.starts_with("cannot be checked: pattern"), "{message}");
}

#[test]
fn many_patterns_with_nested_repetition_are_bounded() {
    let patterns: Vec<Value> =
        (0..60).map(|n| json!({"pattern": format!("^(([a-z])+.)+[A-Z]([a-z])+{n}$")})).collect();
    let schema = Schema::register(&json!({ "anyOf": patterns })).unwrap();
    assert!(schema.check(&json!("a".repeat(30_000))).is_err());
    let large: Vec<Value> =
        (0..60).map(|n| json!({"pattern": format!("^[a-z]{{1,{}}}$", 700 + n)})).collect();
    assert!(Schema::register(&json!({ "anyOf": large })).unwrap_err().contains("patterns"));
}

#[test]
fn the_budget_grows_with_the_value_up_to_a_ceiling() {
    let names: Vec<String> = ('a'..='p').map(String::from).collect();
    let each: Vec<Value> = (0..600).map(|n| json!({"required": names, "minProperties": n % 16})).collect();
    let wide = Schema::register(&json!({"items": {"allOf": each}})).unwrap();
    let object: serde_json::Map<String, Value> = names.iter().map(|name| (name.clone(), json!(0))).collect();
    let (_, message) = wide.check(&Value::Array(vec![Value::Object(object); 9000])).unwrap_err();
    assert!(message.contains("too much work"), "{message}");

    let shared = json!({
        "items": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}, "$defs": {"a": {}, "b": {"title": "x"}},
    });
    let shared = Schema::register(&shared).unwrap();
    assert!(shared.check(&json!(vec![0; 10_000])).is_ok());
    let (_, message) = shared.check(&json!(vec![0; 500_000])).unwrap_err();
    assert!(message.contains("too much work"), "{message}");
}
