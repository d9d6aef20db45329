//! The parser of expressions. Precedence from low to high: `||`, `&&`, one comparison, `+ -`, `* /`, `! -`, values.
//! Each error names the expected token, the token before it and the position.

use serde_json::Value;

use super::scope::{PathSegment, ValuePath};
use super::token::{Token, error, tokens};
use super::{Arithmetic, Comparison, ExpressionNode, ParseError};
use crate::limits::EXPRESSION_LEVELS_MAX;

pub(super) fn expression(text: &str) -> Result<ExpressionNode, ParseError> {
    let mut parser = Parser::new(text)?;
    let node = parser.any()?;
    parser.end("an operator")?;
    Ok(node)
}

pub(super) fn path(text: &str) -> Result<ValuePath, ParseError> {
    let mut parser = Parser::new(text)?;
    let Token::Name(name) = parser.peek().clone() else {
        return parser.expected("a name");
    };
    parser.advance();
    let path = parser.path(name)?;
    parser.end("`.` or `[`")?;
    Ok(path)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Parser, ParseError> {
        Ok(Parser { tokens: tokens(text)?, next: 0, depth: 0 })
    }

    fn any(&mut self) -> Result<ExpressionNode, ParseError> {
        self.chain("||", Parser::all, ExpressionNode::Any)
    }

    fn all(&mut self) -> Result<ExpressionNode, ParseError> {
        self.chain("&&", Parser::comparison, ExpressionNode::All)
    }

    /// Parses one operand, or several operands with the same operator.
    fn chain(
        &mut self,
        symbol: &str,
        operand: fn(&mut Parser) -> Result<ExpressionNode, ParseError>,
        join: fn(Vec<ExpressionNode>) -> ExpressionNode,
    ) -> Result<ExpressionNode, ParseError> {
        let first = operand(self)?;
        if !self.at(symbol) {
            return Ok(first);
        }
        let mut nodes = vec![first];
        while self.take(symbol) {
            nodes.push(operand(self)?);
        }
        Ok(join(nodes))
    }

    fn comparison(&mut self) -> Result<ExpressionNode, ParseError> {
        let left = self.sum()?;
        let Some(operator) = self.comparison_operator() else {
            return Ok(left);
        };
        self.advance();
        let right = self.sum()?;
        // `1 < x < 9` would compare a boolean with 9.
        if self.comparison_operator().is_some() {
            return error(self.position(), "comparisons cannot be chained, join them with `&&`,");
        }
        Ok(ExpressionNode::Comparison(Box::new(left), operator, Box::new(right)))
    }

    fn comparison_operator(&self) -> Option<Comparison> {
        match self.peek() {
            Token::Symbol("==") => Some(Comparison::Equal),
            Token::Symbol("!=") => Some(Comparison::NotEqual),
            Token::Symbol("<") => Some(Comparison::Less),
            Token::Symbol("<=") => Some(Comparison::LessOrEqual),
            Token::Symbol(">") => Some(Comparison::Greater),
            Token::Symbol(">=") => Some(Comparison::GreaterOrEqual),
            Token::Name(name) if name == "in" => Some(Comparison::In),
            _ => None,
        }
    }

    fn sum(&mut self) -> Result<ExpressionNode, ParseError> {
        self.arithmetic(Parser::product, [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)])
    }

    fn product(&mut self) -> Result<ExpressionNode, ParseError> {
        self.arithmetic(Parser::unary, [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide)])
    }

    fn arithmetic(
        &mut self,
        operand: fn(&mut Parser) -> Result<ExpressionNode, ParseError>,
        operators: [(&'static str, Arithmetic); 2],
    ) -> Result<ExpressionNode, ParseError> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some((symbol, operator)) = operators.into_iter().find(|(symbol, _)| self.at(symbol)) {
            self.take(symbol);
            rest.push((operator, operand(self)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(ExpressionNode::Arithmetic(Box::new(first), rest))
    }

    fn unary(&mut self) -> Result<ExpressionNode, ParseError> {
        if self.take("!") {
            return self.deeper(Parser::unary).map(|node| ExpressionNode::Not(Box::new(node)));
        }
        if self.take("-") {
            return self.deeper(Parser::unary).map(|node| ExpressionNode::Negative(Box::new(node)));
        }
        self.value()
    }

    fn value(&mut self) -> Result<ExpressionNode, ParseError> {
        if self.take("(") {
            let node = self.deeper(Parser::any)?;
            return if self.take(")") { Ok(node) } else { self.expected("`)`") };
        }
        let node = match self.peek().clone() {
            Token::Text(text) => ExpressionNode::Literal(Value::String(text)),
            Token::Number(number) => ExpressionNode::Literal(Value::Number(number)),
            Token::Name(name) => match name.as_str() {
                "true" => ExpressionNode::Literal(Value::Bool(true)),
                "false" => ExpressionNode::Literal(Value::Bool(false)),
                "null" => ExpressionNode::Literal(Value::Null),
                "in" => return self.expected("a value"),
                _ => {
                    self.advance();
                    return self.path(name).map(ExpressionNode::Path);
                }
            },
            Token::Symbol(_) | Token::End => return self.expected("a value"),
        };
        self.advance();
        Ok(node)
    }

    /// Parses the rest of a path after its first name.
    fn path(&mut self, name: String) -> Result<ValuePath, ParseError> {
        let mut rest = Vec::new();
        loop {
            if self.take(".") {
                let Token::Name(key) = self.peek().clone() else {
                    return self.expected("a name");
                };
                self.advance();
                rest.push(PathSegment::Key(key));
            } else if self.take("[") {
                rest.push(self.bracketed()?);
            } else {
                return Ok(ValuePath { name, rest });
            }
        }
    }

    fn bracketed(&mut self) -> Result<PathSegment, ParseError> {
        let segment = match self.peek().clone() {
            Token::Text(key) => Some(PathSegment::Key(key)),
            Token::Number(number) => {
                number.as_u64().and_then(|index| index.try_into().ok()).map(PathSegment::Index)
            }
            Token::Name(_) | Token::Symbol(_) | Token::End => None,
        };
        let Some(segment) = segment else {
            return self.expected("a whole number or a quoted key");
        };
        self.advance();
        if self.take("]") { Ok(segment) } else { self.expected("`]`") }
    }

    /// Parses a nested expression within the depth limit.
    fn deeper(
        &mut self,
        inside: fn(&mut Parser) -> Result<ExpressionNode, ParseError>,
    ) -> Result<ExpressionNode, ParseError> {
        if self.depth == EXPRESSION_LEVELS_MAX {
            return error(self.position(), format!("nested deeper than {EXPRESSION_LEVELS_MAX} levels"));
        }
        self.depth += 1;
        let node = inside(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn end(&self, otherwise: &str) -> Result<(), ParseError> {
        if *self.peek() == Token::End { Ok(()) } else { self.expected(&format!("{otherwise} or the end")) }
    }

    fn expected<T>(&self, what: &str) -> Result<T, ParseError> {
        let found = match self.peek() {
            Token::End => String::new(),
            token => format!(", found {token}"),
        };
        match self.next.checked_sub(1) {
            Some(previous) => {
                let after = &self.tokens[previous].1;
                error(self.position(), format!("expected {what} after {after}{found}"))
            }
            None => error(self.position(), format!("expected {what}{found}")),
        }
    }

    fn at(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.at(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn position(&self) -> usize {
        self.tokens[self.next].0
    }

    // The last token is always `End`, and no rule advances over it.
    fn advance(&mut self) {
        self.next += 1;
    }
}
