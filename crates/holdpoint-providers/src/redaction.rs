//! Redaction of a text that arrives in parts: a part of a secret at the end of the text is held back until the rest of it
//! arrives.

/// Rules that remove ids, addresses and paths of a provider from texts.
pub(crate) trait TextRedaction {
    /// Returns the text without them.
    fn redact_text(&self, text: &str) -> String;

    /// Returns the position from which the end of the text can be the beginning of something that is removed.
    fn held_from(&self, text: &str) -> usize;
}

/// The end of a text that is not shown yet.
#[derive(Debug, Default)]
pub(crate) struct StreamedText {
    held: String,
}

impl StreamedText {
    /// Adds a part of the text. Returns the next part that can be shown.
    pub(crate) fn push(&mut self, delta: &str, redaction: &impl TextRedaction) -> String {
        self.held.push_str(delta);
        let at = redaction.held_from(&self.held);
        let rest = self.held.split_off(at);
        redaction.redact_text(&std::mem::replace(&mut self.held, rest))
    }
}

/// Returns the position of the longest end of the text with which one of the words begins. The position is not inside of
/// a complete word: its end can be the beginning of another word.
pub(crate) fn held_from<'a>(text: &str, words: impl Iterator<Item = &'a str> + Clone) -> usize {
    let begins = |word: &str| {
        let ends = word.char_indices().rev().map(|(at, _)| at).filter(|at| *at > 0);
        ends.filter(|at| text.ends_with(&word[..*at])).map(|at| text.len() - at).next()
    };
    let mut at = words.clone().filter_map(begins).min().unwrap_or(text.len());
    let starts_of_cut = |word: &'a str, at: usize| {
        text.match_indices(word).map(|(start, _)| start).find(|start| *start < at && at < start + word.len())
    };
    while let Some(start) = words.clone().find_map(|word| starts_of_cut(word, at)) {
        at = start;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Secrets(Vec<&'static str>);

    impl TextRedaction for Secrets {
        fn redact_text(&self, text: &str) -> String {
            self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[…]"))
        }

        fn held_from(&self, text: &str) -> usize {
            held_from(text, self.0.iter().copied())
        }
    }

    #[test]
    fn a_complete_word_is_not_cut_where_another_word_can_begin() {
        let words = ["http://127.0.0.1:341", "127.0.0.1:341"];
        assert_eq!(held_from("at http://127.0.0.1:341", words.into_iter()), 3);
        assert_eq!(held_from("at http://127.0.0.1:341 end", words.into_iter()), 27);
    }

    #[test]
    fn a_secret_is_removed_wherever_the_text_is_cut() {
        let secrets = Secrets(vec!["/data/ab/work", "/data/ab", "0193-ab"]);
        let text = "see /data/ab/work/x, /data/ab/y, 0193-ab, /data and 0193.";
        let whole = secrets.redact_text(text);
        for size in 1..=text.len() {
            let mut streamed = StreamedText::default();
            let parts: Vec<&str> =
                text.as_bytes().chunks(size).map(|part| std::str::from_utf8(part).unwrap()).collect();
            let shown: String = parts.iter().map(|part| streamed.push(part, &secrets)).collect();
            assert_eq!(shown, whole, "parts of {size} bytes");
        }
    }

    #[test]
    fn only_the_beginning_of_a_secret_is_held_back() {
        let secrets = Secrets(vec!["/data/ab"]);
        let mut streamed = StreamedText::default();
        assert_eq!(streamed.push("see /dat", &secrets), "see ");
        assert_eq!(streamed.push("e today", &secrets), "/date today");
    }
}
