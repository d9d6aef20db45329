//! Properties of permission rules. Rules and calls are drawn from few words, so that they often match, and from
//! arbitrary text and JSON.

use holdpoint_core::permission::{Behaviour, PermissionSet, Rule, call_digest};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_260_101),
        ..ProptestConfig::default()
    }
}

fn behaviour() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["allow", "ask", "deny"])
}

fn rule_text() -> impl Strategy<Value = String> {
    let tool = prop::sample::select(vec!["ab", "a*", "?b", "*", "/a/", "/.*/", "cd", "ab*"]);
    let condition = prop::sample::select(vec![
        "x ~ *",
        "x ~ a*",
        "x ~ ab",
        "x = \"ab\"",
        "x =~ /a/",
        "x =~ /.*b/",
        "y = 1",
        "y = null",
        "y ~ 1",
        "l[*] ~ a*",
        "l[*] = 1",
        "l ~ b",
        "o.p ~ a*",
        "o.p = null",
        "l[*].p ~ *",
    ]);
    let primary = prop::option::weighted(0.2, prop::sample::select(vec!["a*", "*b", "*"]));
    (behaviour(), tool, primary, prop::collection::vec(condition, 0..3)).prop_map(
        |(behaviour, tool, primary, conditions)| {
            let all: Vec<&str> = primary.into_iter().chain(conditions).collect();
            let inside = if all.is_empty() { String::new() } else { format!("({})", all.join(", ")) };
            format!("{behaviour} {tool}{inside}")
        },
    )
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(rule_text(), 0..8)
}

fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!("ab"),
        json!("a"),
        json!("b"),
        json!(1),
        json!(null),
        json!(["ab", "b"]),
        json!(["ab"]),
        json!([1, 1]),
        json!([]),
        json!({"p": "ab"}),
        json!([{"p": "b"}]),
        json!({}),
    ]);
    let member = prop::sample::select(vec!["x", "y", "l", "o"]);
    prop::collection::vec((member, leaf), 0..5).prop_map(|members| {
        Value::Object(
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>(),
        )
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c.\\[\\]\"]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn tool() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["ab", "abc", "cd", "a", ""])
}

fn primary() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("x"), Some("z")])
}

fn parsed(texts: &[String]) -> PermissionSet {
    PermissionSet::parse(&json!(texts)).expect("valid rules")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_deny_that_matches_always_wins(
        texts in rules(), tool in tool(), primary in primary(), arguments in arguments()
    ) {
        let set = parsed(&texts);
        let denied = set.rules().iter().any(|rule| {
            rule.behaviour() == Behaviour::Deny && rule.matches(tool, primary, &arguments)
        });
        let decision = set.evaluate(tool, primary, &arguments);
        prop_assert_eq!(decision.behaviour == Behaviour::Deny, denied);
        if set.always_denies(tool) {
            prop_assert!(denied);
        }
    }

    #[test]
    fn an_allow_wins_only_if_it_is_more_specific_than_every_other_match(
        texts in rules(), tool in tool(), primary in primary(), arguments in arguments()
    ) {
        let set = parsed(&texts);
        let decision = set.evaluate(tool, primary, &arguments);
        let matching = set.rules().iter().filter(|rule| rule.matches(tool, primary, &arguments));
        prop_assert_eq!(matching.clone().count(), decision.considered.len() + usize::from(decision.rule.is_some()));
        if decision.behaviour == Behaviour::Allow {
            let winner = &set.rules()[decision.rule.expect("the default is ask")];
            prop_assert!(winner.matches(tool, primary, &arguments));
            for other in matching.filter(|rule| rule.behaviour() != Behaviour::Allow) {
                prop_assert!(other.specificity() < winner.specificity());
            }
        }
    }

    #[test]
    fn an_added_allow_overrides_no_deny_and_no_ask_of_equal_specificity(
        texts in rules(), more in rule_text(), tool in tool(), primary in primary(), arguments in arguments()
    ) {
        let set = parsed(&texts);
        let allow: Rule = format!("allow {}", more.split_once(' ').expect("two words").1).parse().expect("good");
        let before = set.evaluate(tool, primary, &arguments);
        let after = set.with_rules(std::slice::from_ref(&allow)).expect("few rules").evaluate(tool, primary, &arguments);
        let stays = before.behaviour != Behaviour::Ask
            || before.rule.is_some_and(|at| set.rules()[at].specificity() >= allow.specificity())
            || !allow.matches(tool, primary, &arguments);
        if stays {
            prop_assert_eq!(after.behaviour, before.behaviour);
        }
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        texts in rules(), seed in any::<prop::sample::Index>(), tool in tool(), arguments in arguments()
    ) {
        let mut other = texts.clone();
        other.reverse();
        if !other.is_empty() {
            let places = other.len();
            other.rotate_left(seed.index(places));
        }
        let (one, two) = (parsed(&texts), parsed(&other));
        let (first, second) = (one.evaluate(tool, None, &arguments), two.evaluate(tool, None, &arguments));
        prop_assert_eq!(first.behaviour, second.behaviour);
        let decided = |set: &PermissionSet, at: Option<usize>| at.map(|at| set.rules()[at].to_string());
        prop_assert_eq!(decided(&one, first.rule), decided(&two, second.rule));
        prop_assert_eq!(one.always_denies(tool), two.always_denies(tool));
    }

    #[test]
    fn a_deny_matches_every_call_that_an_allow_with_the_same_conditions_matches(
        text in rule_text(), tool in tool(), primary in primary(), arguments in arguments()
    ) {
        let (_, words) = text.split_once(' ').expect("two words");
        let of = |behaviour: &str| format!("{behaviour} {words}").parse::<Rule>().expect("good");
        if of("allow").matches(tool, primary, &arguments) {
            prop_assert!(of("deny").matches(tool, primary, &arguments));
        }
        prop_assert_eq!(
            of("ask").matches(tool, primary, &arguments),
            of("deny").matches(tool, primary, &arguments)
        );
    }

    #[test]
    fn a_rule_survives_formatting_and_parsing(
        behaviour in behaviour(), glob in "[ -~é\\n]{0,12}", name in "[ -~é\\n]{0,6}", value in any_json()
    ) {
        let path = format!("[{}]", json!(name));
        let object = json!({"tool": "t*", "behavior": behaviour, "when": [
            json!(glob).to_string(), format!("{path} ~ {}", json!(glob)), format!("a{path}[*] = {value}"),
            format!("b =~ {}", json!(format!("x{}", glob.replace(|c: char| !c.is_alphanumeric(), "/")))),
        ]});
        let read = Rule::parse(&object).map_err(|flaws| TestCaseError::fail(format!("{flaws:?}")))?;
        let short: Rule = read.to_string().parse().map_err(|flaw| TestCaseError::fail(format!("{read}: {flaw}")))?;
        prop_assert_eq!(short.to_string(), read.to_string());
        let again = serde_json::to_value(&read).expect("a rule is JSON");
        let reread = Rule::parse(&again).map_err(|flaws| TestCaseError::fail(format!("{again}: {flaws:?}")))?;
        prop_assert_eq!(serde_json::to_value(&reread).expect("a rule is JSON"), again);
        prop_assert!(read.specificity() == short.specificity());
    }

    #[test]
    fn arbitrary_rules_and_calls_never_panic(
        texts in prop::collection::vec(any::<String>(), 0..4),
        nearly in "(allow|ask|deny) [a/*?(\\\\]{0,4}\\([a\\[\\]*\".~=/, {}0-9\\\\]{0,16}\\)",
        document in any_json(), tool in any::<String>(), primary in prop::option::of(any::<String>()),
        arguments in any_json()
    ) {
        PermissionSet::parse(&document).ok();
        PermissionSet::parse(&json!({"rules": [{"tool": &tool, "behavior": "ask", "when": &texts}]})).ok();
        let good = texts.iter().chain([&nearly]).filter_map(|text| text.parse::<Rule>().ok());
        let own = ["ask t(a =~ /./)", "deny *(a.b[*] ~ *a?)", "allow /./(*)"].map(|text| text.parse().expect("good"));
        let all: Vec<Rule> = good.chain(own).collect();
        let set = PermissionSet::default().with_rules(&all).expect("few rules");
        let decision = set.evaluate(&tool, primary.as_deref(), &arguments);
        prop_assert_eq!(&decision, &set.evaluate(&tool, primary.as_deref(), &arguments));
        set.always_denies(&tool);
        prop_assert_eq!(call_digest(&tool, &arguments), call_digest(&tool, &arguments.clone()));
        for rule in set.rules() {
            prop_assert!(rule.to_string().parse::<Rule>().is_ok(), "{}", rule);
        }
    }

    #[test]
    fn a_glob_matches_like_the_equivalent_regular_expression(glob in "[ab*?]{0,8}", text in "[abé]{0,10}") {
        let source = glob.replace('?', "(?s:.)").replace('*', "[^z]*");
        let of = |test: String| format!("allow t({test})").parse::<Rule>().expect("good");
        let expected = match source.is_empty() {
            true => text.is_empty(),
            false => of(format!("x =~ {}", json!(source))).matches("t", None, &json!({"x": text})),
        };
        prop_assert_eq!(of(format!("x ~ {}", json!(glob))).matches("t", None, &json!({"x": text})), expected);
    }
}
