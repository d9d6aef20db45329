//! The short form of rules: read, written again, and refused where it could be meant in two ways.

use holdpoint_core::permission::{Rule, Scope};
use serde_json::json;

use crate::rule;

#[test]
fn a_rule_is_written_in_one_way_however_it_was_read() {
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
fn what_could_be_meant_in_two_ways_is_refused() {
    for (text, told) in [
        ("", "a behaviour and a tool"),
        ("Bash(git *)", "begins with allow, ask or deny"),
        ("allow", "a behaviour and a tool"),
        ("Allow Bash", "begins with allow, ask or deny"),
        ("allow (x)", "is empty"),
        ("allow Bash()", "is empty"),
        ("allow Bash(a = 1,)", "is empty"),
        ("allow Bash(, a = 1)", "is empty"),
        ("allow Bash(git *", "last character"),
        ("allow Bash(git *) now", "last character"),
        ("allow Bash Read", "no tool's name has ' '"),
        ("allow Bash(echo a, b)", "stands first and alone"),
        ("allow Bash(a = 1, git *)", "stands first and alone"),
        ("allow Bash(to ~ a,b)", "stands first and alone"),
        ("allow Bash(FOO=bar make)", "must be JSON"),
        ("allow Bash(a = x)", "must be JSON"),
        ("allow Bash(a = )", "a value is missing"),
        ("allow Bash(a ~ )", "a value is missing"),
        ("allow Bash(a ~ , b = 1)", "a value is missing"),
        ("allow Bash(a = {\"b\":1,\"b\":2})", "must be JSON"),
        ("allow Bash(a == 1)", "must be JSON"),
        ("allow Bash(a != 1)", "tested with ~, =~ or ="),
        ("allow Bash(a > 1)", "tested with ~, =~ or ="),
        ("allow Bash(a = 1 b = 2)", "a comma between them"),
        ("allow Bash(\"a\" b)", "a comma between them"),
        ("allow Bash(\"a)", "string of JSON"),
        ("allow Bash(a =~ x)", "between slashes"),
        ("allow Bash(a =~ /x)", "must end with it"),
        ("allow Bash(a =~ /(/)", "is not a regular expression"),
        ("allow Bash(a =~ /a)|(b/)", "is not a regular expression"),
        ("allow Bash(a =~ /(?x)a # b/)", "is not a regular expression"),
        ("allow Bash(a =~ //)", "says nothing"),
        ("allow Bash(a[0] ~ x)", "[*] or [\"a name\"]"),
        ("allow Bash(ls[ab] x)", "double quotes"),
        ("allow Bash(a..b ~ x)", "begins with no field"),
        ("allow Bash(a b = x)", "begins with no field"),
        ("allow Bash(=~ /x/)", "begins with no field"),
        ("allow Bash(~ x)", "needs a field"),
        ("allow /x", "between slashes"),
        ("allow //", "says nothing"),
        ("allow /a/b", "last character"),
    ] {
        let flaw = text.parse::<Rule>().map(|rule| rule.to_string()).expect_err(text);
        assert!(flaw.message.contains(told), "{text}: {flaw}");
    }
}

#[test]
fn a_rule_is_written_as_the_object_it_was_read_from() {
    let whole = json!({
        "tool": "sendEmail", "when": ["to ~ *@example.com", "cc = null", "subject =~ /^Re: /"],
        "behavior": "allow", "scope": "thread", "source": "run 7", "reason": "approved by Ada",
    });
    let read: Rule = serde_json::from_value(whole.clone()).unwrap();
    assert_eq!((read.scope, read.reason.as_deref()), (Some(Scope::Thread), Some("approved by Ada")));
    assert_eq!(serde_json::to_value(&read).unwrap(), whole);
    let short = "allow sendEmail(to ~ *@example.com, cc = null, subject =~ /^Re: /)";
    assert_eq!(read.to_string(), short);
    let plain = json!({"tool": "*", "behavior": "ask"});
    assert_eq!(serde_json::to_value(Rule::parse(&plain).unwrap()).unwrap(), plain);
    assert_eq!(serde_json::to_value(rule("ask *")).unwrap(), plain);
}

#[test]
fn a_condition_that_stands_alone_may_have_commas() {
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
