//! Canonical JSON (RFC 8785) and its digest. Equal values have the same digest, so that an approver can be sure which
//! payload a decision is about.

use std::fmt::Write;

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// Returns `sha256:` and the lowercase hex of the SHA-256 of the canonical text.
pub fn digest(value: &Value) -> String {
    format!("sha256:{}", hex(&Sha256::digest(canonical(value).as_bytes())))
}

/// Returns bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns the canonical text: no spaces, ordered members, numbers as ECMAScript writes them.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(members) => write_object(text, members),
    }
}

/// Writes an object. Names are ordered by their UTF-16 code units, which is not the order of their bytes.
fn write_object(text: &mut String, members: &Map<String, Value>) {
    let mut ordered: Vec<(&String, &Value)> = members.iter().collect();
    ordered.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    text.push('{');
    for (place, (name, value)) in ordered.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_string(text, name);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            control if control < ' ' => put(text, format_args!("\\u{:04x}", u32::from(control))),
            plain => text.push(plain),
        }
    }
    text.push('"');
}

/// Writes a number. In the RFC every number is a double, so an integer is written as the nearest double.
fn write_number(text: &mut String, number: &Number) {
    let value = number.as_f64().unwrap_or_default();
    if value == 0.0 {
        text.push('0');
        return;
    }
    if value < 0.0 {
        text.push('-');
    }
    // The digits without a point, and the position of the point in them.
    let scientific = shortest(value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(|character| *character != '.').collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |many: i32| "0".repeat(usize::try_from(many).unwrap_or_default());
    let split = usize::try_from(point).unwrap_or_default();
    if (count..=21).contains(&point) {
        put(text, format_args!("{digits}{}", zeros(point - count)));
    } else if (1..=21).contains(&point) {
        put(text, format_args!("{}.{}", &digits[..split], &digits[split..]));
    } else if (-5..=0).contains(&point) {
        put(text, format_args!("0.{}{digits}", zeros(-point)));
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        put(text, format_args!("{first}{dot}{rest}e{:+}", point - 1));
    }
}

/// Returns the shortest text that parses to the same double, in scientific notation. If two texts of that length are
/// equally near, ECMAScript requires the even one, but Rust may return either. A fixed precision returns the even one.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let nearest = format!("{value:.*e}", digits.saturating_sub(1));
    if nearest.parse() == Ok(value) { nearest } else { shortest }
}

fn put(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_written_as_ecmascript_writes_them() {
        // Bits and texts of appendix B of the RFC, and the limits between the four forms.
        for (bits, text) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(canonical(&json!(f64::from_bits(bits))), text);
        }
        for (number, text) in [(json!(10), "10"), (json!(-5), "-5"), (json!(1.0), "1"), (json!(0.5), "0.5")] {
            assert_eq!(canonical(&number), text);
        }
        assert_eq!(canonical(&json!(u64::MAX)), "18446744073709552000");
    }

    #[test]
    fn strings_escape_only_the_required_characters() {
        let sample = "\u{20ac}$\u{f}\nA'B\"\\\\\"/\u{7f}\u{8}\t\u{c}\r";
        let expected = "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u{7f}\\b\\t\\f\\r\"";
        assert_eq!(canonical(&json!(sample)), expected);
    }

    #[test]
    fn members_are_ordered_by_utf_16() {
        let sample = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control",
            "\u{f6}": "Latin Small Letter O With Diaeresis",
        });
        let text = canonical(&sample);
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let places: Vec<_> = order.iter().map(|word| text.find(word)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{text}");
    }

    #[test]
    fn a_digest_depends_on_the_values_and_not_on_order_or_spaces() {
        let one: Value = serde_json::from_str(r#"{"b": [1.0, 2], "a": null}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":null,"b":[1,2e0]}"#).unwrap();
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"b": [1, 3], "a": null})));
        let empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(digest(&json!({})), empty);
    }
}
