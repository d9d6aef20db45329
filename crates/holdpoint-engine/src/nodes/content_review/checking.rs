//! `contentReview.check`: looks a draft over by rules. What it finds is shown to the reviewer and decides nothing.

use holdpoint_core::workflow::{self, Flaw};
use serde::Deserialize;

use super::payload::CheckResult;
use super::{input, invalid, needed, outputs};
use crate::context::{Context, Stop};
use crate::nodes::{Outputs, PureNode, unknown_config};

const WORDS_MAX: usize = 100;
const WORD_CHARS_MAX: usize = 100;

pub(super) struct Check;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rules {
    #[serde(default)]
    forbidden_words: Vec<String>,
    /// In characters.
    #[serde(default)]
    max_length: Option<u64>,
}

impl PureNode for Check {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        unknown_config(node, &[])
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let draft: String = needed(context, "draft")?;
        let rules: Rules = input(context, "rules")?.unwrap_or_default();
        rules.check()?;
        Ok(outputs([("checks", &rules.results(&draft))]))
    }
}

impl Rules {
    fn check(&self) -> Result<(), Stop> {
        if self.forbidden_words.len() > WORDS_MAX {
            return Err(invalid(format!("rules.forbiddenWords: {WORDS_MAX} are the most")));
        }
        let wrong = |word: &String| word.trim().is_empty() || word.chars().count() > WORD_CHARS_MAX;
        if self.forbidden_words.iter().any(wrong) {
            return Err(invalid(format!("rules.forbiddenWords: each has 1 to {WORD_CHARS_MAX} characters")));
        }
        Ok(())
    }

    fn results(&self, draft: &str) -> Vec<CheckResult> {
        let mut results = Vec::new();
        if let Some(most) = self.max_length {
            let length = draft.chars().count() as u64;
            let message = (length > most).then(|| format!("{length} characters; {most} are allowed"));
            results.push(result("maxLength", message));
        }
        if !self.forbidden_words.is_empty() {
            let text = draft.to_lowercase();
            let found: Vec<&str> = self
                .forbidden_words
                .iter()
                .map(String::as_str)
                .filter(|word| has_word(&text, word))
                .collect();
            let message = (!found.is_empty()).then(|| format!("these words are in it: {}", found.join(", ")));
            results.push(result("forbiddenWords", message));
        }
        results
    }
}

/// It passed if there is nothing to say.
fn result(name: &str, message: Option<String>) -> CheckResult {
    CheckResult { name: name.to_owned(), passed: message.is_none(), message }
}

/// Whole words only: who forbids "ass" has nothing against a glass.
fn has_word(text: &str, word: &str) -> bool {
    let word = word.trim().to_lowercase();
    let bounded = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(&word).any(|(at, _)| bounded(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_a_whole_and_in_any_case() {
        for (text, word, found) in [
            ("a guaranteed win", "guaranteed", true),
            ("Guaranteed!", "guaranteed", true),
            ("GUARANTEED", "Guaranteed", true),
            ("unguaranteed", "guaranteed", false),
            ("a glass, an ass", "ass", true),
            ("a glass", "ass", false),
            ("über alles", "über", true),
            ("money back now", "money back", true),
        ] {
            assert_eq!(has_word(&text.to_lowercase(), word), found, "{word} in {text}");
        }
    }

    #[test]
    fn each_rule_says_once_whether_it_is_kept() {
        let rules = Rules { forbidden_words: vec!["free".to_owned()], max_length: Some(4) };
        let found = rules.results("Free beer");
        assert_eq!(found.iter().map(|one| one.passed).collect::<Vec<_>>(), [false, false]);
        assert_eq!(found[0].message.as_deref(), Some("9 characters; 4 are allowed"));
        assert!(rules.results("beer").iter().all(|one| one.passed && one.message.is_none()));
        assert!(Rules::default().results("anything").is_empty());
    }
}
