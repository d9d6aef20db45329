//! The specificity of rules: a total order.

use serde::Serialize;

/// The specificity of a rule. Fields are compared in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Specificity {
    tool: ToolRank,
    /// The number of literal characters (not `*` or `?`) in the glob of the tool.
    tool_chars: usize,
    conditions: usize,
    equalities: usize,
    /// The number of literal characters in all globs of arguments.
    argument_chars: usize,
}

/// The kind of a tool pattern, from broad to narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolRank {
    /// A glob that consists only of `*` and `?`.
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
        tool: ToolRank,
        tool_chars: usize,
        conditions: usize,
        equalities: usize,
        argument_chars: usize,
    ) -> Self {
        Self { tool, tool_chars, conditions, equalities, argument_chars }
    }

    /// Returns the reason why `other` is less specific than `self`, or None if it is not.
    pub(super) fn advantage_over(&self, other: &Self) -> Option<String> {
        if self <= other {
            return None;
        }
        if self.tool != other.tool {
            return Some(format!("{} is narrower than {}", self.tool.name(), other.tool.name()));
        }
        let steps = [
            (self.tool_chars, other.tool_chars, "literal characters in the tool name"),
            (self.conditions, other.conditions, "conditions"),
            (self.equalities, other.equalities, "equalities"),
            (self.argument_chars, other.argument_chars, "literal characters in argument globs"),
        ];
        let (more, fewer, what) = steps.into_iter().find(|(one, two, _)| one != two)?;
        Some(format!("it has {fewer} {what}, the other {more}"))
    }
}
