//! Matching of conditions against arguments: an allow matches strictly, an ask or a deny broadly.

use holdpoint_core::permission::call_digest;
use serde_json::{Value, json};

use crate::rule;

/// Checks rows of: condition, arguments, whether an allow matches, whether an ask or a deny matches.
fn check(rows: &[(&str, Value, bool, bool)]) {
    for (condition, arguments, strict, broad) in rows {
        for (behaviour, matches_expected) in [("allow", strict), ("ask", broad), ("deny", broad)] {
            let text = format!("{behaviour} t({condition})");
            assert_eq!(rule(&text).matches("t", None, arguments), *matches_expected, "{text} on {arguments}");
        }
    }
}

#[test]
fn a_condition_reads_the_field_at_its_path() {
    check(&[
        ("to ~ a*", json!({"to": "ab"}), true, true),
        ("to ~ a*", json!({"to": "b"}), false, false),
        ("to ~ a*", json!({"To": "ab"}), false, false),
        ("to ~ *", json!({}), false, false),
        ("to ~ *", json!({"to": null}), false, false),
        ("to ~ *", json!({"to": []}), false, false),
        ("to ~ *", json!({"to": ""}), true, true),
        ("a.b ~ x", json!({"a": {"b": "x"}}), true, true),
        ("a.b ~ x", json!({"a.b": "x"}), false, false),
        ("[\"a.b\"] ~ x", json!({"a.b": "x"}), true, true),
        ("a[\"b c\"].d ~ x", json!({"a": {"b c": {"d": "x"}}}), true, true),
        ("a.b ~ x", json!({"a": "x"}), false, false),
        ("a.b ~ x", json!("x"), false, false),
        ("a.b ~ x", json!(null), false, false),
    ]);
}

#[test]
fn a_value_of_another_shape_never_matches_an_allow_but_can_match_a_deny() {
    check(&[
        ("to ~ a*", json!({"to": ["ab"]}), false, true),
        ("to ~ a*", json!({"to": ["b", ["ab"]]}), false, true),
        ("to ~ a*", json!({"to": {"address": "ab"}}), false, true),
        ("to ~ a*", json!({"to": ["b"]}), false, false),
        ("to =~ /^a/", json!({"to": ["b", "ab"]}), false, true),
        ("to = \"a\"", json!({"to": ["a"]}), false, true),
        ("to = \"a\"", json!({"to": {"x": "a"}}), false, true),
        ("to.address ~ a*", json!({"to": [{"address": "ab"}]}), false, true),
        ("to.address ~ a*", json!({"to": [[{"address": "ab"}]]}), false, true),
        ("to[*] ~ a*", json!({"to": "ab"}), false, true),
        ("to[*].address ~ a*", json!({"to": {"address": "ab"}}), false, true),
        ("amount ~ 9*", json!({"amount": 900}), false, true),
        ("amount ~ 9*", json!({"amount": 100}), false, false),
        ("force ~ true", json!({"force": true}), false, true),
    ]);
}

#[test]
fn an_allow_needs_all_elements_to_match_and_an_ask_or_deny_one() {
    check(&[
        ("to[*] ~ *@a", json!({"to": ["x@a", "y@a"]}), true, true),
        ("to[*] ~ *@a", json!({"to": ["x@a", "y@b"]}), false, true),
        ("to[*] ~ *@a", json!({"to": ["x@b"]}), false, false),
        ("to[*] ~ *@a", json!({"to": []}), false, false),
        ("to[*] ~ *@a", json!({}), false, false),
        ("to[*] ~ *@a", json!({"to": ["x@a", 7]}), false, true),
        ("to[*].m ~ *@a", json!({"to": [{"m": "x@a"}, {"m": "y@a"}]}), true, true),
        ("to[*].m ~ *@a", json!({"to": [{"m": "x@a"}, {}]}), false, true),
        ("a[*].b[*] = 1", json!({"a": [{"b": [1, 1]}, {"b": [1]}]}), true, true),
        ("a[*].b[*] = 1", json!({"a": [{"b": [1, 2]}, {"b": [1]}]}), false, true),
        ("a[*].b[*] = 1", json!({"a": [{"b": []}, {"b": [1]}]}), false, true),
        ("[*] ~ x", json!(["x"]), true, true),
    ]);
}

#[test]
fn equality_is_json_equality_with_exact_numbers() {
    check(&[
        ("a = 1", json!({"a": 1}), true, true),
        ("a = 1", json!({"a": 1.0}), true, true),
        ("a = 1", json!({"a": "1"}), false, false),
        ("a = 0", json!({"a": -0.0}), true, true),
        ("a = 0", json!({"a": false}), false, false),
        ("a = true", json!({"a": true}), true, true),
        ("a = \"x\"", json!({"a": "x"}), true, true),
        ("a = \"x\"", json!({"a": "X"}), false, false),
        ("a = {\"b\": [1, null]}", json!({"a": {"b": [1, null]}}), true, true),
        ("a = {\"b\": 1}", json!({"a": {"b": 1, "c": 2}}), false, false),
        ("a = [1, 2]", json!({"a": [2, 1]}), false, false),
        ("a = 9007199254740993", json!({"a": 9_007_199_254_740_993_u64}), true, true),
        ("a = 9007199254740993", json!({"a": 9_007_199_254_740_992_u64}), false, false),
        ("a = 18446744073709551615", json!({"a": u64::MAX}), true, true),
        ("a = 0.5", json!({"a": 0.5}), true, true),
        ("a = 1e300", json!({"a": 1e300}), true, true),
        ("a = 1", json!({"a": 1.5}), false, false),
    ]);
}

#[test]
fn a_missing_field_equals_null_for_a_deny_but_not_for_an_allow() {
    check(&[
        ("cc = null", json!({"cc": null}), true, true),
        ("cc = null", json!({}), false, true),
        ("a.b = null", json!({"a": {}}), false, true),
        ("a.b = null", json!({}), false, true),
        ("a.b = null", json!({"a": {"b": 1}}), false, false),
        ("cc =~ /.*/", json!({}), false, false),
        ("cc =~ /.*/", json!({"cc": null}), false, false),
    ]);
}

#[test]
fn conditions_are_joined_by_and() {
    check(&[
        ("a = 1, b = 2", json!({"a": 1, "b": 2}), true, true),
        ("a = 1, b = 2", json!({"a": 1, "b": 3}), false, false),
        ("a = 1, b = 2", json!({"a": 1}), false, false),
        ("git *, t = 5", json!({"command": "git log", "t": 5}), true, true),
        ("git *, t = 5", json!({"command": "git log", "t": 6}), false, false),
    ]);
}

#[test]
fn the_primary_argument_is_the_declared_one_or_the_only_text() {
    let rows = [
        (None, json!({"command": "rm x"}), true, true),
        (None, json!({"command": "rm x", "timeout": 5}), true, true),
        // Ambiguous: an allow does not match, a deny does.
        (None, json!({"command": "rm x", "description": "tidy up"}), false, true),
        (None, json!({"command": "ls", "description": "rm x"}), false, true),
        (None, json!({"command": ["rm x"]}), false, true),
        (None, json!({"timeout": 5}), false, false),
        (None, json!({}), false, false),
        (None, json!(null), false, false),
        (None, json!("rm x"), true, true),
        (None, json!(["rm x"]), false, true),
        (Some("command"), json!({"command": "rm x", "description": "tidy up"}), true, true),
        (Some("command"), json!({"command": "ls", "description": "rm x"}), false, false),
        (Some("command"), json!({"description": "rm x"}), false, true),
        (Some("command"), json!({"command": ["rm x"]}), false, true),
        (Some("command"), json!({"command": 5}), false, false),
        (Some("command"), json!("rm x"), false, true),
    ];
    for (primary, arguments, strict, broad) in rows {
        for (behaviour, matches_expected) in [("allow", strict), ("ask", broad), ("deny", broad)] {
            let found = rule(&format!("{behaviour} t(rm *)")).matches("t", primary, &arguments);
            assert_eq!(found, matches_expected, "{behaviour}, {primary:?}: {arguments}");
        }
    }
}

#[test]
fn deeply_nested_arguments_are_evaluated() {
    let mut deep = json!("needle");
    for _ in 0..20_000 {
        deep = Value::Array(vec![deep]);
    }
    let mut arguments = json!({});
    arguments["a"] = deep;
    assert!(rule("deny t(a ~ needle)").matches("t", None, &arguments));
    assert!(rule("deny t(a.b.c = null)").matches("t", None, &arguments));
    assert!(rule("deny t(needle)").matches("t", None, &arguments));
    assert!(!rule("allow t(a[*] ~ needle)").matches("t", None, &arguments));
    // The drop of this value would recurse and overflow the stack; it is not part of the test.
    std::mem::forget(arguments);
}

#[test]
fn the_digest_of_a_call_covers_tool_and_exact_numbers_but_not_member_order() {
    let one: Value = serde_json::from_str(r#"{"b": [1.0, 2], "a": null}"#).unwrap();
    let other: Value = serde_json::from_str(r#"{"a":null,"b":[1,2]}"#).unwrap();
    assert_eq!(call_digest("t", &one), call_digest("t", &other));
    let known = "sha256:58e00695203c64d35f5667a12f3db942e79bf4b2c1547c66301b7bb9e5e3d672";
    assert_eq!(call_digest("pay", &json!({"to": "a", "amount": 5})), known);
    let different = [
        call_digest("t", &one),
        call_digest("u", &one),
        call_digest("t", &json!({"a": null})),
        call_digest("t", &json!({"id": 9_007_199_254_740_992_u64})),
        call_digest("t", &json!({"id": 9_007_199_254_740_993_u64})),
        call_digest("t", &json!({"id": -9_007_199_254_740_993_i64})),
        call_digest("t", &json!({"a/b": [9_007_199_254_740_993_u64]})),
        call_digest("t", &json!({"a": {"b": [9_007_199_254_740_993_u64]}})),
    ];
    let distinct: std::collections::BTreeSet<_> = different.iter().collect();
    assert_eq!(distinct.len(), different.len());
}
