//! What a server or a graph says of its trouble, without the names by which anything could be reached.

/// The most characters that are told.
const CHARS_MAX: usize = 300;
/// A word with a run of so many hexadecimal digits and hyphens is a name of something.
const NAME_CHARS_MIN: usize = 16;

/// One line, without URLs and ids.
pub(super) fn scrubbed(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let told = words
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(|word| if leads_somewhere(word) { "[…]" } else { word });
    let mut line = String::new();
    let mut count = 0;
    for word in told {
        let length = word.chars().count() + usize::from(count > 0);
        if count + length > CHARS_MAX {
            let left = CHARS_MAX.saturating_sub(count + usize::from(count > 0));
            // A text without blanks is cut inside of its word.
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

fn leads_somewhere(word: &str) -> bool {
    word.contains("://") || word.contains("localhost") || has_address(word) || has_name(word)
}

/// Digits and dots such as `10.1.2.3`, with or without a port.
fn has_address(word: &str) -> bool {
    let candidate = |part: &str| part.parse::<std::net::Ipv4Addr>().is_ok();
    word.split(|c: char| !c.is_ascii_digit() && c != '.').any(candidate)
}

fn has_name(word: &str) -> bool {
    let named =
        |part: &str| part.len() >= NAME_CHARS_MIN && part.bytes().filter(u8::is_ascii_digit).count() >= 2;
    word.split(|c: char| !c.is_ascii_hexdigit() && c != '-').any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_are_left_out_of_what_is_told() {
        let said = "ValueError: thread 8d8ac610-566d-4ef0-9c22-186b2a5ed793 at\n http://10.1.2.3:9/x, id=e365c0ae539105f8980d6f132685e5ce is (10.2.3.4) odd";
        assert_eq!(scrubbed(said), "ValueError: thread […] at […] […] is […] odd");
        assert_eq!(
            scrubbed("a well-acknowledged deadbeef fact of 2026-11-16"),
            "a well-acknowledged deadbeef fact of 2026-11-16"
        );
    }

    #[test]
    fn a_long_story_is_cut() {
        let cut = scrubbed(&"word ".repeat(200));
        assert!(cut.chars().count() <= CHARS_MAX + 1 && cut.ends_with("word…"), "{cut}");
        assert_eq!(scrubbed(&"é".repeat(900)).chars().count(), CHARS_MAX + 1);
    }
}
