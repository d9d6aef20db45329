//! Matching of patterns against tool names and texts.

use holdpoint_core::permission::Behaviour;
use serde_json::json;

use crate::{behaviour_of, rule};

#[test]
fn a_glob_matches_the_whole_text() {
    for (glob, text, expected) in [
        ("git", "git", true),
        ("git", "Git", false),
        ("git", "git ", false),
        ("git", "", false),
        ("git *", "git status", true),
        ("git *", "git ", true),
        ("git *", "git", false),
        ("git *", "legit status", false),
        ("git *", "git log\nrm -rf /", true),
        ("*", "", true),
        ("*", "any text", true),
        ("**", "", true),
        ("?", "", false),
        ("?", "a", true),
        ("?", "ä", true),
        ("?", "🦀", true),
        ("?", "ab", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("a*c", "ac", true),
        ("a*c", "abbbc", true),
        ("a*c", "abbbcd", false),
        ("*@example.com", "a@example.com", true),
        ("*@example.com", "@example.com", true),
        ("*@example.com", "a@example.com.evil", false),
        ("*@example.com", "a@examplexcom", false),
        ("*a*b*", "xxaxxbxx", true),
        ("*a*b*", "xxbxxaxx", false),
        ("*ab*ab", "ab", false),
        ("*ab*ab", "abab", true),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("*a?b*", "aab", true),
        ("*a?b*", "aaab", true),
        ("*a?b*", "ab", false),
        ("*?b?*", "abc", true),
        ("/srv/*", "/srv/../etc/passwd", true),
        ("[ab]", "a", false),
        ("a.c", "abc", false),
        ("a+", "aa", false),
        ("a\\*", "a*", false),
        ("a\\*", "a\\b", true),
        ("*é", "e\u{301}", false),
        ("é", "\u{e9}", true),
    ] {
        let written = rule(&format!("allow t({})", json!(glob)));
        assert_eq!(written.matches("t", None, &json!({"a": text})), expected, "{glob:?} on {text:?}");
    }
}

#[test]
fn a_pattern_for_tools_is_a_name_a_glob_or_a_regular_expression() {
    for (pattern, tool, expected) in [
        ("read", "read", true),
        ("read", "Read", false),
        ("read", "read_file", false),
        ("read", "thread", false),
        ("read_*", "read_file", true),
        ("read_*", "read_", true),
        ("read_*", "read", false),
        ("*_file", "read_file", true),
        ("mcp__*__read?", "mcp__disk__read1", true),
        ("mcp__*__read?", "mcp__disk__read", false),
        ("*", "any_tool", true),
        ("*", "", true),
        ("/^read_/", "read_file", true),
        ("/(read|list)_[a-z]+/", "list_files", true),
        ("/(read|list)_[a-z]+/", "drop_files", false),
        ("/a\\/b/", "a/b", true),
        ("name.space/tool-1", "name.space/tool-1", true),
        ("name.space", "nameXspace", false),
    ] {
        // For a deny, a regular expression may match a part of the name.
        assert_eq!(
            rule(&format!("deny {pattern}")).matches(tool, None, &json!({})),
            expected,
            "{pattern} on {tool}"
        );
    }
}

#[test]
fn a_regular_expression_must_match_the_whole_text_to_allow_and_a_part_to_ask_or_deny() {
    for (source, text, whole, part) in [
        ("@example\\.com", "a@example.com", false, true),
        (".*@example\\.com", "a@example.com", true, true),
        (".*@example\\.com", "a@example.com.evil", false, true),
        ("^a$", "a", true, true),
        ("^a$", "a\n", false, false),
        ("a|ab", "ab", true, true),
        ("(?m)^a$", "b\na", false, true),
        ("(?i)drop", "DROP", true, true),
        ("drop", "DROP", false, false),
        ("a.c", "a\nc", false, false),
        ("x", "", false, false),
    ] {
        for (behaviour, expected) in [("allow", whole), ("ask", part), ("deny", part)] {
            let written = rule(&format!("{behaviour} t(a =~ {})", json!(source)));
            assert_eq!(
                written.matches("t", None, &json!({"a": text})),
                expected,
                "{behaviour} {source} on {text:?}"
            );
        }
    }
    assert_eq!(behaviour_of(&["allow /read/"], "thread", &json!({})), Behaviour::Ask);
    assert_eq!(behaviour_of(&["deny /read/"], "thread", &json!({})), Behaviour::Deny);
}

#[test]
fn argument_values_are_never_read_as_patterns() {
    for text in ["*", "?", "/.*/", "[a-z]*", "to ~ *", "git *", "\"", "(", ")", "allow *", "a = 1, b"] {
        let call = json!({"a": text});
        assert_eq!(behaviour_of(&["allow t(a ~ safe)"], "t", &call), Behaviour::Ask, "{text}");
        assert_eq!(behaviour_of(&["allow t(a = \"safe\")"], "t", &call), Behaviour::Ask, "{text}");
        assert_eq!(behaviour_of(&["allow t(a =~ /safe/)"], "t", &call), Behaviour::Ask, "{text}");
        assert_eq!(behaviour_of(&["allow read"], text, &json!({})), Behaviour::Ask, "{text}");
        let own = format!("allow t(a = {})", json!(text));
        assert_eq!(behaviour_of(&[&own], "t", &call), Behaviour::Allow, "{text}");
    }
}
