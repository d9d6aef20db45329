//! The short form of rules: parsing, formatting, and rejection of invalid and ambiguous text.

use holdpoint_core::permission::{Rule, RuleScope};
use serde_json::json;

use crate::rule;

#[test]
fn a_rule_has_one_canonical_text() {
    for (read, written) in [
        ("allow Bash", "allow Bash"),
        ("  deny   Bash  ", "deny Bash"),
        ("allow Bash(git *)", "allow Bash(git *)"),
        ("allow Bash( git * )", "allow Bash(git *)"),
        ("allow Bash (git *)", "allow Bash(git *)"),
        ("allow Bash(\"git *\")", "allow Bash(git *)"),
        ("allow Bash(\"echo a, b\")", "allow Bash(\"echo a, b\")"),
        ("allow Bash(\" x\")", "allow Bash(\" x\")"),
        ("allow Bash(\"\")", "allow Bash(\"\")"),
        ("allow Bash(\"a = b\")", "allow Bash(\"a = b\")"),
        ("allow Bash(\"A=b\")", "allow Bash(\"A=b\")"),
        ("allow Bash(\"cat > x\")", "allow Bash(\"cat > x\")"),
        ("allow Bash(\"a\\nb\")", "allow Bash(\"a\\nb\")"),
        ("allow Bash(python -c \"print(1)\")", "allow Bash(python -c \"print(1)\")"),
        ("allow Read(~/.config/*)", "allow Read(~/.config/*)"),
        ("allow Read(Cargo.*)", "allow Read(Cargo.*)"),
        ("allow Read(src/main.rs)", "allow Read(src/main.rs)"),
        ("ask sendEmail(to ~ \"*@example.com\", cc = null)", "ask sendEmail(to ~ *@example.com, cc = null)"),
        ("ask sendEmail(to~*@example.com,cc=null)", "ask sendEmail(to ~ *@example.com, cc = null)"),
        ("ask t(a = {\"b\": [1, 2]}, c = \"x, y\")", "ask t(a = {\"b\":[1,2]}, c = \"x, y\")"),
        ("ask t(to[*].address =~ /^a{1,3}$/)", "ask t(to[*].address =~ /^a{1,3}$/)"),
        ("ask t(to =~ \"^a{1,3}$\")", "ask t(to =~ /^a{1,3}$/)"),
        ("ask t(to =~ /a\\/b/, c ~ x)", "ask t(to =~ /a\\/b/, c ~ x)"),
        ("ask t(to =~ \"a/b\")", "ask t(to =~ \"a/b\")"),
        ("ask t([\"a b\"].c ~ x)", "ask t([\"a b\"].c ~ x)"),
        ("ask t([\"plain\"] ~ x)", "ask t(plain ~ x)"),
        ("ask t(a ~ b = c)", "ask t(a ~ b = c)"),
        ("ask /^(a|b) c$/(x = 1)", "ask /^(a|b) c$/(x = 1)"),
        ("deny *", "deny *"),
    ] {
        assert_eq!(rule(read).to_string(), written, "{read}");
        assert_eq!(rule(written).to_string(), written, "{written}");
    }
}

#[test]
fn invalid_and_ambiguous_rules_are_rejected() {
    for (text, expected) in [
        ("", "a behaviour and a tool"),
        ("Bash(git *)", "begin with allow, ask or deny"),
        ("allow", "a behaviour and a tool"),
        ("Allow Bash", "begin with allow, ask or deny"),
        ("allow (x)", "is empty"),
        ("allow Bash()", "is empty"),
        ("allow Bash(a = 1,)", "is empty"),
        ("allow Bash(, a = 1)", "is empty"),
        ("allow Bash(git *", "last character"),
        ("allow Bash(git *) now", "last character"),
        ("allow Bash Read", "a tool name cannot contain ' '"),
        ("allow Bash(echo a, b)", "must be the first condition"),
        ("allow Bash(a = 1, git *)", "must be the first condition"),
        ("allow Bash(to ~ a,b)", "must be the first condition"),
        ("allow Bash(FOO=bar make)", "must be JSON"),
        ("allow Bash(a = x)", "must be JSON"),
        ("allow Bash(a = )", "a value is missing"),
        ("allow Bash(a ~ )", "a value is missing"),
        ("allow Bash(a ~ , b = 1)", "a value is missing"),
        ("allow Bash(a = {\"b\":1,\"b\":2})", "must be JSON"),
        ("allow Bash(a == 1)", "must be JSON"),
        ("allow Bash(a != 1)", "~, =~ and ="),
        ("allow Bash(a > 1)", "~, =~ and ="),
        ("allow Bash(a = 1 b = 2)", "separate conditions with commas"),
        ("allow Bash(\"a\" b)", "separate conditions with commas"),
        ("allow Bash(\"a)", "JSON string"),
        ("allow Bash(a =~ x)", "enclosed in slashes"),
        ("allow Bash(a =~ /x)", "must end with it"),
        ("allow Bash(a =~ /(/)", "is not a valid regular expression"),
        ("allow Bash(a =~ /a)|(b/)", "is not a valid regular expression"),
        ("allow Bash(a =~ /(?x)a # b/)", "is not a valid regular expression"),
        ("allow Bash(a =~ //)", "regular expression is empty"),
        ("allow Bash(a[0] ~ x)", "[*] or [\"a name\"]"),
        ("allow Bash(ls[ab] x)", "double quotes"),
        ("allow Bash(a..b ~ x)", "does not begin with a field"),
        ("allow Bash(a b = x)", "does not begin with a field"),
        ("allow Bash(=~ /x/)", "does not begin with a field"),
        ("allow Bash(~ x)", "needs a field"),
        ("allow /x", "enclosed in slashes"),
        ("allow //", "regular expression is empty"),
        ("allow /a/b", "last character"),
    ] {
        let flaw = text.parse::<Rule>().map(|rule| rule.to_string()).expect_err(text);
        assert!(flaw.message.contains(expected), "{text}: {flaw}");
    }
}

#[test]
fn a_rule_is_written_as_the_object_it_was_read_from() {
    let whole = json!({
        "tool": "sendEmail", "when": ["to ~ *@example.com", "cc = null", "subject =~ /^Re: /"],
        "behavior": "allow", "scope": "thread", "source": "run 7", "reason": "approved by Ada",
    });
    let read: Rule = serde_json::from_value(whole.clone()).unwrap();
    assert_eq!((read.scope, read.reason.as_deref()), (Some(RuleScope::Thread), Some("approved by Ada")));
    assert_eq!(serde_json::to_value(&read).unwrap(), whole);
    let short = "allow sendEmail(to ~ *@example.com, cc = null, subject =~ /^Re: /)";
    assert_eq!(read.to_string(), short);
    let plain = json!({"tool": "*", "behavior": "ask"});
    assert_eq!(serde_json::to_value(Rule::parse(&plain).unwrap()).unwrap(), plain);
    assert_eq!(serde_json::to_value(rule("ask *")).unwrap(), plain);
}

#[test]
fn a_single_condition_may_contain_commas() {
    let alone = |condition: &str| {
        Rule::parse(&json!({"tool": "t", "when": [condition], "behavior": "allow"}))
            .map(|rule| rule.to_string())
    };
    for (condition, written) in [
        ("echo a, b", "allow t(\"echo a, b\")"),
        ("to ~ a,b", "allow t(to ~ \"a,b\")"),
        ("to =~ ^a{1,3}$", "allow t(to =~ /^a{1,3}$/)"),
        ("to =~ /^a{1,3}$/", "allow t(to =~ /^a{1,3}$/)"),
        ("to = [1, 2]", "allow t(to = [1,2])"),
    ] {
        assert_eq!(alone(condition).as_deref(), Ok(written), "{condition}");
    }
    for condition in ["", "a = 1, b = 2", "\"a\", b", "a =~ /x/ y"] {
        assert!(alone(condition).is_err(), "{condition}");
    }
}
