//! Removes addresses and ids from error texts of a server or a graph.

/// The maximum length of a text, in characters.
const CHARS_MAX: usize = 300;
/// A word is an id if it has at least this many consecutive hexadecimal digits and hyphens, at least two of them
/// decimal digits.
const ID_CHARS_MIN: usize = 16;

/// Returns the text as one line without URLs, addresses and ids.
pub(super) fn scrubbed(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let redacted = words
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(|word| if is_identifying(word) { "[…]" } else { word });
    let mut line = String::new();
    let mut count = 0;
    for word in redacted {
        let length = word.chars().count() + usize::from(count > 0);
        if count + length > CHARS_MAX {
            let left = CHARS_MAX.saturating_sub(count + usize::from(count > 0));
            // A text without spaces is cut inside the word.
            if count == 0 {
                line.extend(word.chars().take(left));
            }
            line.push('…');
            break;
        }
        if count > 0 {
            line.push(' ');
        }
        line.push_str(word);
        count += length;
    }
    line
}

fn is_identifying(word: &str) -> bool {
    word.contains("://") || word.contains("localhost") || has_address(word) || has_id(word)
}

/// Returns whether the word contains an IPv4 address such as `10.1.2.3`.
fn has_address(word: &str) -> bool {
    let candidate = |part: &str| part.parse::<std::net::Ipv4Addr>().is_ok();
    word.split(|c: char| !c.is_ascii_digit() && c != '.').any(candidate)
}

fn has_id(word: &str) -> bool {
    let named =
        |part: &str| part.len() >= ID_CHARS_MIN && part.bytes().filter(u8::is_ascii_digit).count() >= 2;
    word.split(|c: char| !c.is_ascii_hexdigit() && c != '-').any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_addresses_are_removed() {
        let text = "ValueError: thread 8d8ac610-566d-4ef0-9c22-186b2a5ed793 at\n http://10.1.2.3:9/x, id=e365c0ae539105f8980d6f132685e5ce is (10.2.3.4) odd";
        assert_eq!(scrubbed(text), "ValueError: thread […] at […] […] is […] odd");
        assert_eq!(
            scrubbed("a well-acknowledged deadbeef fact of 2026-11-16"),
            "a well-acknowledged deadbeef fact of 2026-11-16"
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        let cut = scrubbed(&"word ".repeat(200));
        assert!(cut.chars().count() <= CHARS_MAX + 1 && cut.ends_with("word…"), "{cut}");
        assert_eq!(scrubbed(&"é".repeat(900)).chars().count(), CHARS_MAX + 1);
    }
}
