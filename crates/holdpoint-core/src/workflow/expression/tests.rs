//! Tables of expressions with their values, and of invalid texts with their errors.

use serde_json::{Value, json};

use super::*;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_LEVELS_MAX, EXPRESSION_STRING_BYTES_MAX};

fn value(text: &str) -> Result<Value, String> {
    let variables =
        json!({"amount": 250, "name": "Ada", "empty": "", "key with space": {"x": [1, 2]}, "big": u64::MAX});
    let output =
        json!({"approved": true, "roles": ["finance", "ops", 7], "items": [{"price": 2.5}], "none": null});
    let scope = ExpressionScope::new().root("variables", &variables).fallback(&output).fallback(&variables);
    let expression = Expression::parse(text).map_err(|error| error.to_string())?;
    expression.evaluate(&scope).map_err(|error| error.to_string())
}

#[track_caller]
fn table<const N: usize>(rows: [(&str, Value); N]) {
    for (text, expected) in rows {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[track_caller]
fn rejected<const N: usize>(rows: [(&str, &str); N]) {
    for (text, message) in rows {
        assert_eq!(value(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn literals_evaluate_to_their_values() {
    table([
        ("1", json!(1)),
        ("-1", json!(-1)),
        ("1.50", json!(1.5)),
        ("1e3", json!(1000.0)),
        ("2E-1", json!(0.2)),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("true", json!(true)),
        ("false", json!(false)),
        ("null", json!(null)),
    ]);
}

#[test]
fn strings_accept_both_quotes_and_the_escapes_of_json() {
    table([
        (r#"'a "b"'"#, json!("a \"b\"")),
        (r#""it's""#, json!("it's")),
        (r"'it\'s'", json!("it's")),
        (r"'\\ \n \r \t \/ \b \f'", json!("\\ \n \r \t / \u{8} \u{c}")),
        (r"'\u0041\u00e9\ud83d\ude00!'", json!("Aé😀!")),
        ("'日本語 🦀'", json!("日本語 🦀")),
        ("''", json!("")),
    ]);
}

#[test]
fn paths_resolve_roots_before_fallbacks_in_order() {
    table([
        ("variables.amount", json!(250)),
        ("amount", json!(250)),
        ("approved", json!(true)),
        ("roles[1]", json!("ops")),
        ("items[0].price", json!(2.5)),
        (r#"variables["key with space"].x[1]"#, json!(2)),
        ("variables['name']", json!("Ada")),
        (" variables . name ", json!("Ada")),
    ]);
    let (first, second) = (json!({"a": 1, "b": {"c": 1}}), json!({"a": 2, "b": {"d": 2}, "e": 3}));
    let root = json!({"x": 0});
    let scope = ExpressionScope::new().fallback(&first).fallback(&second).root("e", &root);
    let found = |text: &str| scope.lookup(&ValuePath::parse(text).expect("a path")).cloned();
    assert_eq!(found("a"), Some(json!(1)));
    assert_eq!(found("b.d"), None, "the first fallback with the name is used");
    assert_eq!(found("e.x"), Some(json!(0)), "roots have precedence over fallbacks");
}

#[test]
fn a_path_without_a_value_is_null() {
    table([
        ("missing", json!(null)),
        ("missing.a[0].b", json!(null)),
        ("amount.of[3]", json!(null)),
        ("roles[99]", json!(null)),
        ("roles.name", json!(null)),
        ("variables[0]", json!(null)),
        ("roles[18446744073709551615]", json!(null)),
        ("missing == null", json!(true)),
        ("none == missing", json!(true)),
    ]);
    let none = json!({"none": null});
    let scope = ExpressionScope::new().fallback(&none);
    assert_eq!(scope.lookup(&ValuePath::parse("none").expect("a path")), Some(&Value::Null));
    assert_eq!(scope.lookup(&ValuePath::parse("gone").expect("a path")), None);
}

#[test]
fn keywords_after_a_dot_are_keys() {
    let data = json!({"in": 1, "true": 2, "null": 3});
    let scope = ExpressionScope::new().root("data", &data);
    let expression = Expression::parse("data.in + data.true + data.null").expect("an expression");
    assert_eq!(expression.evaluate(&scope), Ok(json!(6)));
}

#[test]
fn equality_compares_json_values_and_1_equals_1_0() {
    table([
        ("1 == 1.0", json!(true)),
        ("1 == '1'", json!(false)),
        ("0 == false", json!(false)),
        ("null == false", json!(false)),
        ("'a' != 'b'", json!(true)),
        ("roles == roles", json!(true)),
        ("18446744073709551615 == 18446744073709551614", json!(false)),
        ("9007199254740993 == 9007199254740992", json!(false)),
        ("-1 == 18446744073709551615", json!(false)),
    ]);
}

#[test]
fn only_numbers_and_strings_can_be_ordered() {
    table([
        ("2 < 10", json!(true)),
        ("2 <= 2.0", json!(true)),
        ("-1 < big", json!(true)),
        ("9007199254740993 > 9007199254740992", json!(true)),
        ("'2' < '10'", json!(false)),
        ("'a' >= 'a'", json!(true)),
        ("items[0].price > 2", json!(true)),
    ]);
    rejected([
        ("1 < 'a'", "only two numbers or two strings can be ordered, not a number and a string"),
        ("missing > 3", "only two numbers or two strings can be ordered, not null and a number"),
        ("true <= false", "only two numbers or two strings can be ordered, not a boolean and a boolean"),
        ("roles >= variables", "only two numbers or two strings can be ordered, not an array and an object"),
    ]);
}

#[test]
fn logic_returns_the_deciding_value_and_skips_the_rest() {
    table([
        ("true && 'yes'", json!("yes")),
        ("0 && 1 < 'a'", json!(0)),
        ("'' || name || 1 < 'a'", json!("Ada")),
        ("missing || null || 0", json!(0)),
        ("!approved", json!(false)),
        ("!!roles", json!(true)),
        ("!missing", json!(true)),
        ("!1 == 2", json!(false)),
        ("true || false && false", json!(true)),
        ("(true || false) && false", json!(false)),
    ]);
}

#[test]
fn arithmetic_is_exact_for_integers_and_left_associative() {
    table([
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("10 - 4 - 3", json!(3)),
        ("7 / 2", json!(3.5)),
        ("6 / 2", json!(3)),
        ("12 / 3 / 2", json!(2)),
        ("1 - -1", json!(2)),
        ("- -1", json!(1)),
        ("0.5 + 1", json!(1.5)),
        ("9007199254740992 + 1", json!(9007199254740993_i64)),
        ("amount * 2 <= 500", json!(true)),
        ("'Dear ' + name + '!'", json!("Dear Ada!")),
    ]);
    rejected([
        ("1 / 0", "division by zero"),
        ("1 / 0.0", "division by zero"),
        ("1 / -0.0", "division by zero"),
        ("0 / (1 - 1)", "division by zero"),
        ("big + 1", "the result does not fit in a 64-bit integer"),
        ("big * big * big", "the result does not fit in a 64-bit integer"),
        ("-big", "the result does not fit in a 64-bit integer"),
        ("1e308 * 10", "the result is too large for a number"),
        ("1 + 'a'", "`+` needs two numbers or two strings, not a number and a string"),
        ("'a' - 'b'", "`-` needs two numbers, not a string and a string"),
        ("missing * 2", "`*` needs two numbers, not null and a number"),
        ("-name", "`-` needs a number, not a string"),
    ]);
}

#[test]
fn in_finds_elements_keys_and_substrings() {
    table([
        ("'finance' in roles", json!(true)),
        ("7.0 in roles", json!(true)),
        ("'hr' in roles", json!(false)),
        ("'amount' in variables", json!(true)),
        ("'price' in items", json!(false)),
        ("'da' in name", json!(true)),
        ("'' in empty", json!(true)),
        ("'a' in missing", json!(false)),
        ("!('hr' in roles) && name == 'Ada'", json!(true)),
    ]);
    rejected([
        ("1 in name", "a string cannot contain a number"),
        ("1 in variables", "an object cannot contain a number"),
        ("1 in 1", "a number cannot contain a number"),
    ]);
}

#[test]
fn the_length_of_a_joined_string_is_limited() {
    let large = json!("x".repeat(EXPRESSION_STRING_BYTES_MAX / 2));
    let scope = ExpressionScope::new().root("large", &large);
    let evaluate = |text: &str| Expression::parse(text).expect("an expression").evaluate(&scope);
    assert!(evaluate("large + large").is_ok());
    let error = evaluate("large + large + 'x'").expect_err("too long");
    assert_eq!(error.to_string(), "the joined string is longer than 1048576 bytes");
}

#[test]
fn truthiness_follows_javascript() {
    for falsy in [json!(null), json!(false), json!(0), json!(0.0), json!(-0.0), json!("")] {
        assert!(!truthy(&falsy), "{falsy}");
    }
    for truthy_value in [json!(true), json!(1), json!(-0.5), json!("0"), json!(" "), json!([]), json!({})] {
        assert!(truthy(&truthy_value), "{truthy_value}");
    }
}

#[test]
fn a_syntax_error_names_the_expected_token_and_the_position() {
    rejected([
        ("", "expected a value at position 0"),
        ("amount ==", "expected a value after `==` at position 9"),
        ("amount == == 1", "expected a value after `==`, found `==` at position 10"),
        ("amount = 1", "a single `=` is not an operator, use `==`, at position 7"),
        ("a & b", "a single `&` is not an operator, use `&&`, at position 2"),
        ("a b", "expected an operator or the end after `a`, found `b` at position 2"),
        ("(1 + 2", "expected `)` after `2` at position 6"),
        ("1)", "expected an operator or the end after `1`, found `)` at position 1"),
        ("a.", "expected a name after `.` at position 2"),
        ("a.0", "expected a name after `.`, found `0` at position 2"),
        ("a[b]", "expected a whole number or a quoted key after `[`, found `b` at position 2"),
        ("a[-1]", "expected a whole number or a quoted key after `[`, found `-` at position 2"),
        ("a[1.5]", "expected a whole number or a quoted key after `[`, found `1.5` at position 2"),
        ("a[0", "expected `]` after `0` at position 3"),
        ("1 < amount < 9", "comparisons cannot be chained, join them with `&&`, at position 11"),
        ("a in", "expected a value after `in` at position 4"),
        ("'open", "the closing ' is missing for the string that begins at position 0"),
        (r"a == '\x'", "unknown escape in a string at position 6"),
        (r"'\ud83d'", "unknown escape in a string at position 1"),
        ("01", "`01` is not a valid JSON number at position 0"),
        ("1e999", "`1e999` is not a valid JSON number at position 0"),
        ("2fast", "a name cannot begin with a digit at position 0"),
        ("é == 日 ~", "unexpected `~` at position 10"),
        ("f(1)", "expected an operator or the end after `f`, found `(` at position 1"),
        ("a, b", "unexpected `,` at position 1"),
    ]);
    let error = Expression::parse("amount == ").expect_err("no value");
    assert_eq!(error.position, 10);
}

#[test]
fn a_path_rejects_operators() {
    for (text, message) in [
        ("", "expected a name at position 0"),
        ("'a'", "expected a name, found a string at position 0"),
        ("a == 1", "expected `.` or `[` or the end after `a`, found `==` at position 2"),
        ("a-b", "expected `.` or `[` or the end after `a`, found `-` at position 1"),
    ] {
        assert_eq!(ValuePath::parse(text).expect_err(text).to_string(), message, "{text}");
    }
}

#[test]
fn the_depth_and_the_length_are_limited() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(value(&nested(EXPRESSION_LEVELS_MAX)), Ok(json!(1)));
    let too_deep = format!("nested deeper than 64 levels at position {}", EXPRESSION_LEVELS_MAX + 1);
    assert_eq!(value(&nested(EXPRESSION_LEVELS_MAX + 1)), Err(too_deep.clone()));
    assert_eq!(value(&format!("{}1", "!".repeat(EXPRESSION_LEVELS_MAX + 1))), Err(too_deep.clone()));
    assert_eq!(value(&format!("{}1", "-".repeat(EXPRESSION_LEVELS_MAX + 1))), Err(too_deep));
    assert_eq!(
        value(&format!("{}1", "(1) + ".repeat(300))),
        Ok(json!(301)),
        "the depth does not depend on the length"
    );

    let longest = format!("1{}", " ".repeat(EXPRESSION_BYTES_MAX - 1));
    assert_eq!(value(&longest), Ok(json!(1)));
    let message = "the text is longer than 4096 bytes at position 4096".to_owned();
    assert_eq!(value(&format!("{longest} ")), Err(message));
}

#[test]
fn invalid_input_never_panics() {
    let seeds = [
        "a", "1", "'", "\"", "\\", "(", ")", "[", "]", ".", "!", "-", "==", "&&", "||", "in", " ", "é", "🦀",
        "\u{0}", "\u{feff}", "\\u", "e", "9", "true", "'x'", "+", "/", "0", "\n",
    ];
    for first in seeds {
        for second in seeds {
            for third in seeds {
                let text = format!("{first}{second}{third}");
                let _ = value(&text);
                let _ = ValuePath::parse(&text);
                let _ = value(&format!("a == '{text}"));
            }
        }
        let _ = value(&first.repeat(EXPRESSION_BYTES_MAX / first.len()));
        let _ = value(&format!("{}{first}", "(".repeat(EXPRESSION_BYTES_MAX - first.len())));
        let _ = value(&format!("{first}{}", "[0]".repeat(1000)));
    }
}

#[test]
fn a_chain_of_maximum_length_is_evaluated() {
    for (operator, expected) in [("+", json!(2048)), ("*", json!(1)), ("&&", json!(1)), ("||", json!(1))] {
        let links = (EXPRESSION_BYTES_MAX - 1) / (operator.len() + 1);
        let chain = format!("{}1", format!("1{operator}").repeat(links));
        assert_eq!(value(&chain), Ok(expected), "{operator}");
    }
}
