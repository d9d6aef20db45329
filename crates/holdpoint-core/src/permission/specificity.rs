//! Which of two rules says more about a call: a total order that can be told in one sentence.

use serde::Serialize;

/// Compared member by member, from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Specificity {
    tool: ToolRank,
    /// Characters of a glob for tools that are neither `*` nor `?`.
    tool_chars: usize,
    conditions: usize,
    equalities: usize,
    /// Characters of all globs for arguments that are neither `*` nor `?`.
    argument_chars: usize,
}

/// From broad to narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolRank {
    /// Nothing but `*` and `?`.
    Any,
    Regex,
    Glob,
    Exact,
}

impl ToolRank {
    fn name(self) -> &'static str {
        match self {
            Self::Any => "a pattern for any tool",
            Self::Regex => "a regular expression for tools",
            Self::Glob => "a glob for tools",
            Self::Exact => "an exact tool name",
        }
    }
}

impl Specificity {
    pub(super) fn new(
        (tool, tool_chars): (ToolRank, usize),
        conditions: usize,
        equalities: usize,
        argument_chars: usize,
    ) -> Self {
        Self { tool, tool_chars, conditions, equalities, argument_chars }
    }

    /// Why the other is less specific; nothing where it is not.
    pub(super) fn advantage_over(&self, other: &Self) -> Option<String> {
        if self <= other {
            return None;
        }
        if self.tool != other.tool {
            return Some(format!("{} is narrower than {}", self.tool.name(), other.tool.name()));
        }
        let steps = [
            (self.tool_chars, other.tool_chars, "characters that are fixed in the tool's name"),
            (self.conditions, other.conditions, "conditions"),
            (self.equalities, other.equalities, "conditions that are equalities"),
            (self.argument_chars, other.argument_chars, "characters that are fixed in globs for arguments"),
        ];
        let (more, fewer, what) = steps.into_iter().find(|(one, two, _)| one != two)?;
        Some(format!("it has {fewer} {what}, the other {more}"))
    }
}
