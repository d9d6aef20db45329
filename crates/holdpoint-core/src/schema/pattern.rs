//! Patterns of a schema. Only the linear regex engine runs them; look-around and back-references are not supported.

use std::sync::OnceLock;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

/// Sizes of a compiled pattern in KiB. The first one that a pattern fits in determines the cost of a match.
const SIZES_KIB: [usize; 6] = [2, 8, 32, 128, 1024, 4096];
/// Bytes of the cache that the engine may use for one pattern.
const CACHE_BYTES: usize = 256 * 1024;

pub(super) struct SchemaPattern {
    text: String,
    /// None if the linear engine cannot run the pattern.
    engine: OnceLock<Option<LinearRegex>>,
}

struct LinearRegex {
    validator: Validator,
    kib: usize,
}

impl SchemaPattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), engine: OnceLock::new() }
    }

    /// Compiles the pattern and returns an upper bound of its size in bytes. The error is the reason why it is not
    /// supported.
    pub(super) fn bytes(&self) -> Result<usize, String> {
        self.engine().map(|engine| engine.kib * 1024).ok_or_else(|| {
            format!(
                "pattern {:?} is not supported: it is not a regular expression, it is too large (maxLength is \
                 cheaper than counted repetition), or it uses look-around or a back-reference",
                self.text
            )
        })
    }

    /// Returns the cost of matching a text, plus the cost of compiling the pattern if it is not compiled yet.
    pub(super) fn work(&self, text: &str) -> usize {
        let is_compiled = self.engine.get().is_some();
        let kib = self.engine().map_or(0, |engine| engine.kib);
        let compiling = if is_compiled { 0 } else { kib * 16 };
        1 + compiling + kib * text.len() * 3 / 8
    }

    /// Returns None if the linear engine cannot run the pattern.
    pub(super) fn matches(&self, text: &Value) -> Option<bool> {
        self.engine().map(|engine| engine.validator.is_valid(text))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn engine(&self) -> Option<&LinearRegex> {
        let compile = || SIZES_KIB.iter().find_map(|kib| LinearRegex::compile(&self.text, *kib));
        self.engine.get_or_init(compile).as_ref()
    }
}

impl LinearRegex {
    fn compile(text: &str, kib: usize) -> Option<Self> {
        let options = PatternOptions::regex().size_limit(kib * 1024).dfa_size_limit(CACHE_BYTES);
        let options = jsonschema::draft202012::options().with_pattern_options(options);
        let validator = options.build(&json!({ "pattern": text })).ok()?;
        Some(Self { validator, kib })
    }
}
