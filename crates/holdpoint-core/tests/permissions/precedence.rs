//! Precedence of rules that match the same call.

use holdpoint_core::permission::{Behaviour, PermissionSet};
use serde_json::{Value, json};

use crate::{behaviour_of, rule, set};

use Behaviour::{Allow, Ask, Deny};

#[test]
fn the_default_behaviour_decides_if_no_rule_matches() {
    for (document, expected) in [
        (json!([]), Ask),
        (json!({"rules": []}), Ask),
        (json!({"default": "ask", "rules": []}), Ask),
        (json!({"default": "deny", "rules": ["allow other"]}), Deny),
        (json!({"default": "allow", "rules": ["deny other"]}), Allow),
    ] {
        let decision = PermissionSet::parse(&document).unwrap().evaluate("t", None, &json!({}));
        assert_eq!((decision.behaviour, decision.rule), (expected, None), "{document}");
        assert_eq!(decision.why, format!("no rule matches; the default is {expected}"));
    }
    assert_eq!(PermissionSet::default().evaluate("t", None, &json!({})).behaviour, Ask);
}

/// Returns pairs of rules that match the same call. The first rule of a pair is the more specific one.
fn specificity_pairs() -> Vec<(&'static str, &'static str, Value)> {
    let call = json!({"a": "xyz", "b": 2, "c": "xyz"});
    [
        ("mail_send", "mail_*"),
        ("mail_send", "/^mail_send$/"),
        ("mail_send", "*"),
        ("mail_send", "*(a = \"xyz\", b = 2)"),
        ("mail_*", "/mail_send/"),
        ("mail_*", "*"),
        ("mail_*", "m*"),
        ("m*", "/mail_send/(a = \"xyz\")"),
        ("mail_sen?", "mail_*"),
        ("*_send", "*send"),
        ("/.*/", "*"),
        ("/.*/", "*(a ~ *)"),
        ("/.*/", "?????????"),
        ("mail_send(a ~ *)", "mail_send"),
        ("mail_send(a ~ *, b = 2)", "mail_send(a ~ xyz)"),
        ("mail_send(a ~ *, c ~ *)", "mail_send(b = 2)"),
        ("mail_send(a = \"xyz\")", "mail_send(a ~ xyz)"),
        ("mail_send(a = \"xyz\", b = 2)", "mail_send(a ~ xyz, b = 2)"),
        ("mail_send(b = 2)", "mail_send(a =~ /xyz/)"),
        ("mail_send(a ~ xyz)", "mail_send(a ~ xy*)"),
        ("mail_send(a ~ xy*)", "mail_send(a ~ x*)"),
        ("mail_send(a ~ xy?)", "mail_send(a ~ x*)"),
        ("mail_send(a ~ x*)", "mail_send(a =~ /xyz/)"),
        ("*(a ~ x*)", "*(a ~ *)"),
    ]
    .map(|(narrow, broad)| (narrow, broad, call.clone()))
    .to_vec()
}

#[test]
fn the_more_specific_rule_decides() {
    for (narrow, broad, call) in specificity_pairs() {
        for (first, second) in [(Allow, Ask), (Ask, Allow)] {
            let texts = [format!("{first} {narrow}"), format!("{second} {broad}")];
            let decision = set(&[&texts[0], &texts[1]]).evaluate("mail_send", None, &call);
            assert_eq!((decision.behaviour, decision.rule), (first, Some(0)), "{texts:?}");
            assert_eq!(decision.considered.len(), 1, "{texts:?}");
            assert!(decision.considered[0].why.starts_with("less specific: "), "{decision:?}");
            let decision = set(&[&texts[1], &texts[0]]).evaluate("mail_send", None, &call);
            assert_eq!((decision.behaviour, decision.rule), (first, Some(1)), "{texts:?}");
        }
    }
}

#[test]
fn a_broad_deny_wins_over_a_more_specific_rule() {
    for (narrow, broad, call) in specificity_pairs() {
        for other in [Allow, Ask] {
            let texts = [format!("{other} {narrow}"), format!("deny {broad}")];
            let decision = set(&[&texts[0], &texts[1]]).evaluate("mail_send", None, &call);
            assert_eq!((decision.behaviour, decision.rule), (Deny, Some(1)), "{texts:?}");
            assert_eq!(decision.considered[0].why, "a deny wins");
        }
    }
}

#[test]
fn an_ask_wins_over_an_allow_of_equal_specificity() {
    let call = json!({"a": "xyz", "b": "xyz"});
    for (ask, allow) in [
        ("t", "t"),
        ("*", "**"),
        ("?", "*"),
        ("/t/", "/t|u/"),
        ("t(a ~ x*)", "t(b ~ *z)"),
        ("t(a = \"xyz\")", "t(b = \"xyz\")"),
        ("t(a =~ /xyz/)", "t(b =~ /x.*/)"),
        ("t(a ~ *)", "t(a =~ /.*/)"),
    ] {
        let texts = [format!("allow {allow}"), format!("ask {ask}")];
        let decision = set(&[&texts[0], &texts[1]]).evaluate("t", None, &call);
        assert_eq!((decision.behaviour, decision.rule), (Ask, Some(1)), "{texts:?}");
        assert_eq!(decision.considered[0].why, "as specific, and ask beats allow");
    }
}

#[test]
fn a_specific_ask_wins_over_a_broad_allow() {
    let rules = ["allow Bash(git *)", "ask Bash(git push *)", "deny Bash(*--force*)"];
    for (command, expected) in [
        ("git status", Allow),
        ("git push origin", Ask),
        ("git push --force origin", Deny),
        ("rm -rf /", Ask),
    ] {
        assert_eq!(behaviour_of(&rules, "Bash", &json!({"command": command})), expected, "{command}");
    }
}

#[test]
fn a_decision_names_its_rule_and_why_the_other_matches_lost() {
    let rules = set(&["allow *", "ask Bash", "allow Bash(git *)", "ask Read"]);
    let decision = rules.evaluate("Bash", None, &json!({"command": "git log secret"}));
    assert_eq!((decision.behaviour, decision.rule), (Allow, Some(2)));
    assert_eq!(decision.why, "rules[2], `allow Bash(git *)`, is the most specific of 3 rules that match");
    let lost: Vec<_> = decision.considered.iter().map(|one| (one.rule, one.why.as_str())).collect();
    let narrower = "less specific: an exact tool name is narrower than a pattern for any tool";
    assert_eq!(lost, [(1, "less specific: it has 0 conditions, the other 1"), (0, narrower)]);
    assert!(
        !serde_json::to_string(&decision).unwrap().contains("secret"),
        "a decision contains no arguments"
    );
    let shown = serde_json::to_value(&decision).unwrap();
    assert_eq!((&shown["behavior"], &shown["rule"]), (&json!("allow"), &json!(2)));
}

#[test]
fn rules_added_at_run_time_count_and_a_deny_still_wins() {
    let own = set(&["ask Bash", "deny Bash(rm *)"]);
    let granted = [rule("allow Bash(*)")];
    let grown = own.with_rules(&granted).unwrap();
    for (command, before, after) in [("ls", Ask, Allow), ("rm x", Deny, Deny)] {
        let call = json!({"command": command});
        assert_eq!(own.evaluate("Bash", None, &call).behaviour, before);
        assert_eq!(grown.evaluate("Bash", None, &call).behaviour, after);
    }
    assert_eq!(grown.evaluate("Bash", None, &json!({"command": "ls"})).rule, Some(2));
    assert_eq!(own.with_rules(&[]).unwrap().rules().len(), 2);
    let many = vec![rule("allow t"); 499];
    assert_eq!(own.with_rules(&many).unwrap_err().field, "rules");
}

#[test]
fn a_tool_is_hidden_when_every_call_of_it_is_denied() {
    for (document, hidden) in [
        (json!(["deny t"]), true),
        (json!(["deny t", "allow t(a = 1)"]), true),
        (json!(["deny *"]), true),
        (json!(["deny /^t/"]), true),
        (json!(["deny t(a ~ *)"]), false),
        (json!(["deny u"]), false),
        (json!([]), false),
        (json!(["allow t"]), false),
        (json!({"default": "deny", "rules": []}), true),
        (json!({"default": "deny", "rules": ["deny t(a = 1)", "allow u"]}), true),
        (json!({"default": "deny", "rules": ["allow t(a = 1)"]}), false),
        (json!({"default": "deny", "rules": ["ask *"]}), false),
        (json!({"default": "allow", "rules": ["deny t"]}), true),
    ] {
        let set = PermissionSet::parse(&document).unwrap();
        assert_eq!(set.always_denies("t"), hidden, "{document}");
        if hidden {
            for arguments in [json!({}), json!({"a": 1}), json!({"a": "x"})] {
                assert_eq!(set.evaluate("t", None, &arguments).behaviour, Deny, "{document}: {arguments}");
            }
        }
    }
}

/// The rule that decides is stored with the ticket of a call, so replays of older runs need the same rule.
#[test]
fn rules_of_equal_precedence_are_ordered_by_their_key() {
    let by_source = json!({"tool": "send", "behavior": "ask", "source": "policy-a", "reason": "z"});
    let by_reason = json!({"tool": "send", "behavior": "ask", "source": "policy-b", "reason": "a"});
    let rules = PermissionSet::parse(&json!([by_source, by_reason])).unwrap();
    assert_eq!(rules.evaluate("send", None, &json!({})).rule, Some(1));
}
