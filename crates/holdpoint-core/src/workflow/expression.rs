//! A small, safe expression language over JSON, for edge conditions: paths, comparisons, logic and arithmetic.
//! Knows nothing of runs or workflows. No loops, no calls and no assignment: an expression always ends.
//!
//! ```text
//! output.approved == true && (variables.amount <= 500 || 'finance' in user.roles)
//! ```

mod evaluate;
mod parse;
mod scope;
mod token;

#[cfg(test)]
mod tests;

use serde_json::Value;
use thiserror::Error;

pub(super) use evaluate::{contains, equal, truthy};
pub(super) use scope::Path;
pub use scope::Scope;

/// An expression that was parsed once and can be evaluated any number of times.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
}

impl Expression {
    pub fn parse(text: &str) -> Result<Expression, ParseError> {
        parse::expression(text).map(|root| Expression { root })
    }

    /// The value in this scope. A path that leads nowhere is null; values of the wrong type are an error.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        self.root.evaluate(scope).map(std::borrow::Cow::into_owned)
    }

    /// Whether the value is truthy, without copying it.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        self.root.evaluate(scope).map(|value| truthy(&value))
    }
}

/// Why a text is no expression or path. The position counts bytes from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message} at position {position}")]
pub struct ParseError {
    pub message: String,
    pub position: usize,
}

/// Why an expression has no value in a scope.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct EvalError {
    pub message: String,
}

// Chains such as `a && b && c` are lists, not trees leaning to one side: the depth of the tree, and with it the
// stack that evaluating, cloning and dropping need, depends on nesting alone and never on the length of the text.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Literal(Value),
    Path(Path),
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Negative(Box<Node>),
    Comparison(Box<Node>, Comparison, Box<Node>),
    Arithmetic(Box<Node>, Vec<(Arithmetic, Node)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}
