//! Names of tools with stars: `*` stands for any characters or none, `?` for one.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Glob(Vec<char>);

impl From<String> for Glob {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl Glob {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.chars().collect())
    }

    /// When a star has taken too little it takes one more; an earlier star never has to.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut in_text) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while in_text < text.len() {
            match self.0.get(at) {
                Some('*') => {
                    star = Some((at, in_text));
                    at += 1;
                }
                Some(c) if *c == '?' || *c == text[in_text] => {
                    at += 1;
                    in_text += 1;
                }
                _ => {
                    let Some((of_star, taken)) = star else { return false };
                    star = Some((of_star, taken + 1));
                    at = of_star + 1;
                    in_text = taken + 1;
                }
            }
        }
        self.0[at..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        for (glob, text, fits) in [
            ("*", "", true),
            ("*", "anything", true),
            ("read_*", "read_file", true),
            ("read_*", "write_file", false),
            ("*_file", "read_file", true),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbx", false),
            ("r??d", "read", true),
            ("r??d", "red", false),
            ("read", "read_file", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(Glob::new(glob).matches(text), fits, "{glob} {text}");
        }
    }
}
