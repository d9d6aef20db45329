//! The report of a benchmark: one JSON object for scripts, or labels and values as text.

use holdpoint_cli::output::Output;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Failure;
use super::measure::{Percentiles, RoundedNumber, format_number};

/// Members of the JSON object and lines of the text, in the order of the output.
#[derive(Default)]
pub(super) struct ReportFields {
    members: Map<String, Value>,
    lines: Vec<(String, String)>,
}

pub(super) struct Report {
    pub(super) fields: ReportFields,
    pub(super) errors: usize,
}

impl ReportFields {
    pub(super) fn of(bench: &str) -> Self {
        Self::default().member("bench", bench)
    }

    /// Adds a member of the JSON object.
    pub(super) fn member(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        // Numbers, texts and lists of them can always be serialized.
        self.members.insert(name.into(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// Adds a number to the JSON object; null if it is unknown.
    pub(super) fn number(self, name: impl Into<String>, value: Option<f64>) -> Self {
        self.member(name, RoundedNumber(value))
    }

    /// Adds a line of the text. A line without a value is not printed.
    pub(super) fn line(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.lines.push((name.into(), text.into()));
        self
    }

    /// Adds a member of the JSON object and a line of the text.
    pub(super) fn field(
        self,
        member: &str,
        value: impl Serialize,
        name: &str,
        text: impl Into<String>,
    ) -> Self {
        self.member(member, value).line(name, text)
    }

    /// Adds percentiles to both outputs.
    pub(super) fn percentiles(self, member: &str, name: &str, spread: Option<Percentiles>) -> Self {
        self.field(member, spread, name, Percentiles::text(spread))
    }

    /// Adds a number of bytes to the JSON object and of megabytes to the text.
    pub(super) fn memory(self, member: &str, name: &str, bytes: Option<f64>) -> Self {
        let megabytes = format_number(bytes.map(|bytes| bytes / 1e6), 1);
        self.field(member, RoundedNumber(bytes), name, format!("{megabytes} MB"))
    }

    /// Adds the number of errors and the first one.
    pub(super) fn finish(self, errors: usize, first: Option<&Failure>) -> Report {
        let first = first.map(Failure::message);
        let fields = self.member("errors", errors).member("firstError", first);
        let fields = fields.line("errors", errors.to_string()).line("first error", first.unwrap_or_default());
        Report { fields, errors }
    }
}

impl Serialize for ReportFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.members.serialize(serializer)
    }
}

impl Report {
    pub(super) fn print(self, output: &Output) -> Result<(), Failure> {
        let ReportFields { members, lines } = self.fields;
        let lines: Vec<_> = lines.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
        output.line(&if output.json { Value::Object(members).to_string() } else { output.fields(&lines) });
        match self.errors {
            0 => Ok(()),
            errors => Err(Failure::refused(format!("{errors} operations failed"))),
        }
    }
}
