//! The grammar: tokens in, tree out. From loose to tight: `||`, `&&`, one comparison, `+ -`, `* /`, `! -`, values.
//! Every failure says what was expected after what, and where.

use serde_json::Value;

use super::scope::{Path, Segment};
use super::token::{Token, error, tokens};
use super::{Arithmetic, Comparison, Node, ParseError};
use crate::limits::EXPRESSION_LEVELS_MAX;

pub(super) fn expression(text: &str) -> Result<Node, ParseError> {
    let mut parser = Parser::new(text)?;
    let node = parser.any()?;
    parser.end("an operator")?;
    Ok(node)
}

pub(super) fn path(text: &str) -> Result<Path, ParseError> {
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

    fn any(&mut self) -> Result<Node, ParseError> {
        self.chain("||", Parser::all, Node::Any)
    }

    fn all(&mut self) -> Result<Node, ParseError> {
        self.chain("&&", Parser::comparison, Node::All)
    }

    /// One operand, or several joined by the same symbol.
    fn chain(
        &mut self,
        symbol: &str,
        operand: fn(&mut Parser) -> Result<Node, ParseError>,
        join: fn(Vec<Node>) -> Node,
    ) -> Result<Node, ParseError> {
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

    fn comparison(&mut self) -> Result<Node, ParseError> {
        let left = self.sum()?;
        let Some(operator) = self.comparison_operator() else {
            return Ok(left);
        };
        self.advance();
        let right = self.sum()?;
        // `1 < x < 9` would compare true with 9, which nobody means.
        if self.comparison_operator().is_some() {
            return error(self.position(), "comparisons cannot be chained, join them with `&&`,");
        }
        Ok(Node::Comparison(Box::new(left), operator, Box::new(right)))
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

    fn sum(&mut self) -> Result<Node, ParseError> {
        self.arithmetic(Parser::product, [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)])
    }

    fn product(&mut self) -> Result<Node, ParseError> {
        self.arithmetic(Parser::unary, [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide)])
    }

    fn arithmetic(
        &mut self,
        operand: fn(&mut Parser) -> Result<Node, ParseError>,
        operators: [(&'static str, Arithmetic); 2],
    ) -> Result<Node, ParseError> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some((symbol, operator)) = operators.into_iter().find(|(symbol, _)| self.at(symbol)) {
            self.take(symbol);
            rest.push((operator, operand(self)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Node::Arithmetic(Box::new(first), rest))
    }

    fn unary(&mut self) -> Result<Node, ParseError> {
        if self.take("!") {
            return self.deeper(Parser::unary).map(|node| Node::Not(Box::new(node)));
        }
        if self.take("-") {
            return self.deeper(Parser::unary).map(|node| Node::Negative(Box::new(node)));
        }
        self.value()
    }

    fn value(&mut self) -> Result<Node, ParseError> {
        if self.take("(") {
            let node = self.deeper(Parser::any)?;
            return if self.take(")") { Ok(node) } else { self.expected("`)`") };
        }
        let node = match self.peek().clone() {
            Token::Text(text) => Node::Literal(Value::String(text)),
            Token::Number(number) => Node::Literal(Value::Number(number)),
            Token::Name(name) => match name.as_str() {
                "true" => Node::Literal(Value::Bool(true)),
                "false" => Node::Literal(Value::Bool(false)),
                "null" => Node::Literal(Value::Null),
                "in" => return self.expected("a value"),
                _ => {
                    self.advance();
                    return self.path(name).map(Node::Path);
                }
            },
            Token::Symbol(_) | Token::End => return self.expected("a value"),
        };
        self.advance();
        Ok(node)
    }

    /// What follows the name that was just read.
    fn path(&mut self, name: String) -> Result<Path, ParseError> {
        let mut rest = Vec::new();
        loop {
            if self.take(".") {
                let Token::Name(key) = self.peek().clone() else {
                    return self.expected("a name");
                };
                self.advance();
                rest.push(Segment::Key(key));
            } else if self.take("[") {
                rest.push(self.bracketed()?);
            } else {
                return Ok(Path { name, rest });
            }
        }
    }

    fn bracketed(&mut self) -> Result<Segment, ParseError> {
        let segment = match self.peek().clone() {
            Token::Text(key) => Some(Segment::Key(key)),
            Token::Number(number) => {
                number.as_u64().and_then(|index| index.try_into().ok()).map(Segment::Index)
            }
            Token::Name(_) | Token::Symbol(_) | Token::End => None,
        };
        let Some(segment) = segment else {
            return self.expected("a whole number or a quoted key");
        };
        self.advance();
        if self.take("]") { Ok(segment) } else { self.expected("`]`") }
    }

    /// Parses something that recurses, within the depth we allow.
    fn deeper(&mut self, inside: fn(&mut Parser) -> Result<Node, ParseError>) -> Result<Node, ParseError> {
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

    // Never called on the last token, which is always `End`: everything else stops there.
    fn advance(&mut self) {
        self.next += 1;
    }
}
