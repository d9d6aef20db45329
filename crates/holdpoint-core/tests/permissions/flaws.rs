//! Validation of rule sets: all flaws are reported, each with its path.

use holdpoint_core::permission::{
    CONDITIONS_MAX, NOTE_CHARS_MAX, PATTERN_CHARS_MAX, PermissionSet, REGEXES_MAX, RULES_MAX, VALUE_BYTES_MAX,
};
use serde_json::{Value, json};

fn flaws(document: &Value) -> Vec<(String, String)> {
    let found = PermissionSet::parse(document).err().unwrap_or_default();
    found.into_iter().map(|flaw| (flaw.field, flaw.message)).collect()
}

#[test]
fn each_flaw_is_reported_with_its_path_and_a_message() {
    for (document, field, message) in [
        (json!("allow t"), "(document)", "must be an array"),
        (json!({}), "rules", "is missing"),
        (json!({"rules": {}}), "rules", "must be an array"),
        (json!({"rules": [], "defualt": "ask"}), "defualt", "is not a member of a set"),
        (json!({"rules": [], "default": "never"}), "default", "must be allow, ask or deny"),
        (json!({"rules": [], "default": null}), "default", "must be allow, ask or deny"),
        (json!([7]), "rules[0]", "a rule must be an object"),
        (json!(["ask t", "perhaps t"]), "rules[1]", "begin with allow, ask or deny"),
        (json!([{"behavior": "ask"}]), "rules[0].tool", "is missing"),
        (json!([{"tool": "t"}]), "rules[0].behavior", "is missing"),
        (json!([{"tool": 7, "behavior": "ask"}]), "rules[0].tool", "must be a string"),
        (json!([{"tool": "", "behavior": "ask"}]), "rules[0].tool", "is empty"),
        (json!([{"tool": "t(x)", "behavior": "ask"}]), "rules[0].tool", "put conditions into `when`"),
        (json!([{"tool": "/a/b/", "behavior": "ask"}]), "rules[0].tool", "ends at the first /"),
        (json!([{"tool": "/a", "behavior": "ask"}]), "rules[0].tool", "enclosed in slashes"),
        (json!([{"tool": "t", "behavior": "Ask"}]), "rules[0].behavior", "must be allow, ask or deny"),
        (json!([{"tool": "t", "behavior": "ask", "x": 1}]), "rules[0].x", "is not a member of a rule"),
        (json!([{"tool": "t", "behavior": "ask", "scope": "day"}]), "rules[0].scope", "must be once, "),
        (json!([{"tool": "t", "behavior": "ask", "source": 1}]), "rules[0].source", "must be a string"),
        (json!([{"tool": "t", "behavior": "ask", "when": "a = 1"}]), "rules[0].when", "must be an array"),
        (
            json!([{"tool": "t", "behavior": "ask", "when": ["a = 1", 2]}]),
            "rules[0].when[1]",
            "must be a string",
        ),
        (json!([{"tool": "t", "behavior": "ask", "when": ["a = b"]}]), "rules[0].when[0]", "must be JSON"),
        (json!([{"tool": "t", "behavior": "ask", "when": ["a", "b"]}]), "rules[0].when", "at most one"),
    ] {
        let found = flaws(&document);
        assert_eq!(found.len(), 1, "{document}: {found:?}");
        assert!(found[0].0 == field && found[0].1.contains(message), "{document}: {found:?}");
    }
    let british = flaws(&json!([{"tool": "t", "behaviour": "ask"}]));
    assert!(british[0].1.contains("write `behavior`"), "{british:?}");
}

#[test]
fn every_flaw_of_a_rule_set_is_reported() {
    let document = json!({"default": 1, "rules": [
        {"tool": "/(/", "behavior": "no", "when": ["a =~ (", "b = "], "scope": 1},
        "ask t", "no",
    ]});
    let places: Vec<String> = flaws(&document).into_iter().map(|(field, _)| field).collect();
    let expected = [
        "default",
        "rules[0].behavior",
        "rules[0].tool",
        "rules[0].when[0]",
        "rules[0].when[1]",
        "rules[0].scope",
        "rules[2]",
    ];
    assert_eq!(places, expected);
}

#[test]
fn every_limit_accepts_its_maximum_and_rejects_one_more() {
    let of_rules = |many: usize| json!(vec!["ask t"; many]);
    let of_conditions = |many: usize| json!([{"tool": "t", "behavior": "ask", "when": vec!["a = 1"; many]}]);
    let of_listed = |many: usize| json!([format!("ask t({})", vec!["a = 1"; many].join(", "))]);
    let of_regexes = |many: usize| json!(vec!["ask /t/"; many]);
    let of_name = |many: usize| json!([format!("ask {}", "t".repeat(many))]);
    let of_glob = |many: usize| json!([format!("ask t({})", "ä".repeat(many))]);
    let of_regex = |many: usize| json!([format!("ask t(a =~ /{}/)", "a".repeat(many))]);
    let of_value = |many: usize| json!([format!("ask t(a = \"{}\")", "a".repeat(many - 2))]);
    let of_reason = |many: usize| json!([{"tool": "t", "behavior": "ask", "reason": "ä".repeat(many)}]);
    let of_steps = |many: usize| json!([format!("ask t({} ~ x)", vec!["a"; many].join("."))]);
    type Document<'a> = &'a dyn Fn(usize) -> Value;
    let caps: [(&str, usize, Document<'_>); 10] = [
        ("rules", RULES_MAX, &of_rules),
        ("conditions", CONDITIONS_MAX, &of_conditions),
        ("listed conditions", CONDITIONS_MAX, &of_listed),
        ("regexes", REGEXES_MAX, &of_regexes),
        ("name", PATTERN_CHARS_MAX, &of_name),
        ("glob", PATTERN_CHARS_MAX, &of_glob),
        ("regex", PATTERN_CHARS_MAX, &of_regex),
        ("value", VALUE_BYTES_MAX, &of_value),
        ("reason", NOTE_CHARS_MAX, &of_reason),
        ("steps", 16, &of_steps),
    ];
    for (what, max, document) in caps {
        assert_eq!(flaws(&document(max)), [], "{what}");
        assert_eq!(flaws(&document(max + 1)).len(), 1, "{what}");
    }
    let large = flaws(&json!(["ask t(a =~ /(\\w{100}){100}/)"]));
    assert!(large[0].1.contains("is larger than"), "{large:?}");
}
