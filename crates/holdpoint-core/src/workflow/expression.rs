//! A small expression language over JSON for edge conditions and input ports: paths, comparisons, logic and arithmetic.
//! It has no loops, calls or assignments, so the evaluation of an expression always terminates.
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
pub use scope::ExpressionScope;
pub(super) use scope::ValuePath;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: ExpressionNode,
}

impl Expression {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Expression, ParseError> {
        parse::expression(text).map(|root| Expression { root })
    }

    /// Evaluates the expression in a scope. A path without a value is null. Operands of the wrong type are an error.
    pub fn evaluate(&self, scope: &ExpressionScope<'_>) -> Result<Value, EvalError> {
        self.root.evaluate(scope).map(std::borrow::Cow::into_owned)
    }

    /// Returns whether the value of the expression is truthy, without a copy of the value.
    pub fn holds(&self, scope: &ExpressionScope<'_>) -> Result<bool, EvalError> {
        self.root.evaluate(scope).map(|value| truthy(&value))
    }
}

/// A syntax error in an expression or a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message} at position {position}")]
pub struct ParseError {
    /// The message.
    pub message: String,
    /// The position in bytes, from 0.
    pub position: usize,
}

/// An error of the evaluation of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct EvalError {
    /// The message.
    pub message: String,
}

// A chain such as `a && b && c` is a list, not a nested tree. The depth of the tree, and so the stack that evaluation,
// clone and drop need, depends only on the nesting and not on the length of the text.
#[derive(Clone, Debug, PartialEq)]
enum ExpressionNode {
    Literal(Value),
    Path(ValuePath),
    Any(Vec<ExpressionNode>),
    All(Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Negative(Box<ExpressionNode>),
    Comparison(Box<ExpressionNode>, Comparison, Box<ExpressionNode>),
    Arithmetic(Box<ExpressionNode>, Vec<(Arithmetic, ExpressionNode)>),
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
