//! Validation of the names of principals, roles and groups. A name has one spelling, no invisible characters and no mix
//! of scripts that makes it look like another name.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, Script};
use icu_properties::script::ScriptWithExtensions;
use icu_properties::{CodePointMapData, CodePointSetData};

/// Groups of scripts that one name may combine: Japanese, Chinese and Korean names with Latin letters.
const SCRIPT_GROUPS: [&[Script]; 3] = [
    &[Script::Latin, Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Latin, Script::Han, Script::Bopomofo],
    &[Script::Latin, Script::Han, Script::Hangul],
];

/// The reason why a new name is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// An invisible character.
    #[error("U+{:04X} is not accepted: names must not contain control, format or other invisible characters", u32::from(*.0))]
    Invisible(char),
    /// A character of another script.
    #[error(
        "U+{:04X} is not accepted: it is from a different script than the characters before it, which can make one \
         name look like another", u32::from(*.0)
    )]
    MixedScripts(char),
    /// A prefix of entries of approver lists.
    #[error("must not begin with {0}: the prefix is reserved for entries of approver lists")]
    Prefix(&'static str),
}

/// The prefixes of entries of approver lists that are not names of principals.
const PREFIXES: [&str; 3] = ["role:", "group:", "scope:"];

/// Returns a name in Unicode normalization form NFKC.
pub(crate) fn normalize_name(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return Cow::Borrowed(name);
    }
    ComposingNormalizerBorrowed::new_nfkc().normalize(name)
}

/// Returns a new name in its normal form, or rejects it. Names that were stored before this rule are not checked.
pub fn parse_new_name(name: &str) -> Result<Cow<'_, str>, BadName> {
    let name = normalize_name(name);
    if let Some(bad) = name.chars().find(|c| is_invisible(*c)) {
        return Err(BadName::Invisible(bad));
    }
    if let Some(prefix) = PREFIXES.iter().find(|prefix| name.starts_with(**prefix)) {
        return Err(BadName::Prefix(prefix));
    }
    match name.is_ascii() {
        true => Ok(name),
        false => {
            find_other_script(&name).map_or(Ok(()), |bad| Err(BadName::MixedScripts(bad))).map(|()| name)
        }
    }
}

/// Checks a new entry of an approver list: a name, or `role:`, `group:` or `scope:` and a name.
pub fn check_new_entry(entry: &str) -> Result<(), BadName> {
    let name = match entry.split_once(':') {
        Some(("role" | "group" | "scope", name)) => name,
        _ => entry,
    };
    parse_new_name(name).map(|_| ())
}

/// Returns true if an entry of a list is this name, as spelled or in its normal form. The name itself is not
/// normalized: an old name that only looks like the entry is a different name.
pub(crate) fn matches_name(entry: &str, name: &str) -> bool {
    entry == name || (!entry.is_ascii() && normalize_name(entry) == name)
}

fn is_invisible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    let unseen = [
        GeneralCategory::Control,
        GeneralCategory::Format,
        GeneralCategory::LineSeparator,
        GeneralCategory::ParagraphSeparator,
        GeneralCategory::PrivateUse,
        GeneralCategory::Unassigned,
    ];
    let blank = c == '\u{2800}';
    blank || unseen.contains(&category) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Returns the first character whose script cannot be combined with the scripts before it.
fn find_other_script(name: &str) -> Option<char> {
    let scripts = ScriptWithExtensions::new();
    let is_common = |c: &char| {
        [Script::Common, Script::Inherited].contains(&scripts.get_script_val(*c))
            && scripts.get_script_extensions_val(*c).iter().count() <= 1
    };
    let letters: Vec<char> = name.chars().filter(|c| !is_common(c)).collect();
    let first = letters.first()?;
    let alone: Vec<Script> = scripts.get_script_extensions_val(*first).iter().collect();
    let alone = alone.iter().map(std::slice::from_ref);
    // For each group of scripts, the length of the longest prefix that is within the group.
    let lengths = alone.chain(SCRIPT_GROUPS).map(|group| {
        let fits = |c: &&char| group.iter().any(|script| scripts.has_script(**c, *script));
        letters.iter().take_while(fits).count()
    });
    letters.get(lengths.max().unwrap_or_default()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_accepted_in_one_spelling() {
        for name in [
            "ann",
            "ann@example.com",
            "key_0123",
            "spiffe://a/b",
            "Zoë",
            "анна-7",
            "Ελένη",
            "田中.tanaka",
            "さくらサクラ桜",
            "김민준-kim",
            "ㄅ王wang",
            "محمد",
            "अनिल",
        ] {
            assert_eq!(parse_new_name(name).as_deref(), Ok(name));
        }
        for (given, kept) in [("ａｎｎ", "ann"), ("ﬁn", "fin"), ("Zoe\u{308}", "Zoë"), ("Å", "Å")] {
            assert_eq!(parse_new_name(given).as_deref(), Ok(kept), "{given}");
        }
    }

    #[test]
    fn invisible_characters_are_rejected_with_their_code_point() {
        for bad in [
            '\0',
            '\n',
            '\u{7f}',
            '\u{85}',
            '\u{200b}',
            '\u{200d}',
            '\u{202e}',
            '\u{2066}',
            '\u{2028}',
            '\u{feff}',
            '\u{ad}',
            '\u{34f}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{e000}',
            '\u{2800}',
        ] {
            let refused = parse_new_name(&format!("ann{bad}")).unwrap_err();
            assert_eq!(refused, BadName::Invisible(bad));
            assert!(refused.to_string().contains(&format!("U+{:04X}", u32::from(bad))), "{refused}");
        }
    }

    #[test]
    fn a_mix_of_scripts_is_rejected() {
        for (name, bad) in
            [("аnn", 'n'), ("annа", 'а'), ("pаypal", 'а'), ("αnn", 'n'), ("аα", 'α'), ("김さ", 'さ')]
        {
            assert_eq!(parse_new_name(name), Err(BadName::MixedScripts(bad)), "{name}");
        }
        let refused = parse_new_name("аnn").unwrap_err().to_string();
        assert!(refused.contains("U+006E"), "{refused}");
    }

    #[test]
    fn names_with_a_reserved_prefix_are_rejected() {
        assert_eq!(parse_new_name("role:admin"), Err(BadName::Prefix("role:")));
        assert_eq!(parse_new_name("ｇroup:a"), Err(BadName::Prefix("group:")));
        assert_eq!(check_new_entry("role：admin"), Err(BadName::Prefix("role:")));
        assert!(check_new_entry("role:admin").is_ok() && parse_new_name("roles").is_ok());
    }

    #[test]
    fn an_entry_matches_a_name_as_spelled_or_in_its_normal_form() {
        assert!(
            matches_name("ann", "ann")
                && matches_name("ａｎｎ", "ann")
                && matches_name("ann\u{200b}", "ann\u{200b}")
        );
        assert!(!matches_name("ann", "ａｎｎ"), "an old name that only looks alike");
        assert!(!matches_name("ann", "ann\u{200b}") && !matches_name("ann\u{200b}", "ann"));
    }
}
