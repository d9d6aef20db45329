//! `contentReview.check`: checks a draft with rules. The reviewer sees the results and decides independently of them.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_engine::extension::unknown_config;
use holdpoint_engine::{Context, Outputs, PureNode, Stop};
use serde::Deserialize;

use super::payload::CheckResult;
use super::{input, invalid, outputs, required_input};

const WORDS_MAX: usize = 100;
const WORD_CHARS_MAX: usize = 100;

pub(super) struct CheckNode;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DraftRules {
    #[serde(default)]
    forbidden_words: Vec<String>,
    /// The maximum length in characters.
    #[serde(default)]
    max_length: Option<u64>,
}

impl PureNode for CheckNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        unknown_config(node, &[])
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let draft: String = required_input(context, "draft")?;
        let rules: DraftRules = input(context, "rules")?.unwrap_or_default();
        rules.check()?;
        Ok(outputs([("checks", &rules.results(&draft))]))
    }
}

impl DraftRules {
    fn check(&self) -> Result<(), Stop> {
        if self.forbidden_words.len() > WORDS_MAX {
            return Err(invalid(format!("rules.forbiddenWords: must have at most {WORDS_MAX} entries")));
        }
        let wrong = |word: &String| word.trim().is_empty() || word.chars().count() > WORD_CHARS_MAX;
        if self.forbidden_words.iter().any(wrong) {
            return Err(invalid(format!(
                "rules.forbiddenWords: each must have 1 to {WORD_CHARS_MAX} characters"
            )));
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

/// Returns the result of a rule. It passed if there is no message.
fn result(name: &str, message: Option<String>) -> CheckResult {
    CheckResult { name: name.to_owned(), passed: message.is_none(), message }
}

/// Returns true if the text contains the word as a whole word: "ass" does not match "glass".
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
    fn a_forbidden_word_matches_as_a_whole_word_and_ignores_case() {
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
    fn each_rule_has_one_result() {
        let rules = DraftRules { forbidden_words: vec!["free".to_owned()], max_length: Some(4) };
        let found = rules.results("Free beer");
        assert_eq!(found.iter().map(|one| one.passed).collect::<Vec<_>>(), [false, false]);
        assert_eq!(found[0].message.as_deref(), Some("9 characters; 4 are allowed"));
        assert!(rules.results("beer").iter().all(|one| one.passed && one.message.is_none()));
        assert!(DraftRules::default().results("anything").is_empty());
    }
}
