//! Addresses with places in them: `https://host/users/{id}?deep={deep}`. What is filled in stays in its place: it
//! can neither become another segment nor another host.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};

/// Everything but the characters that mean nothing anywhere in an address.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Debug)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Place { name: String, in_path: bool },
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        let mut before = String::new();
        while let Some((literal, after)) = rest.split_once('{') {
            before.push_str(literal);
            let Some((name, behind)) = after.split_once('}') else {
                return Err("has a { without its }".to_owned());
            };
            if name.is_empty() || name.contains('{') {
                return Err("has a place without a name".to_owned());
            }
            pieces.push(Piece::Text(literal.to_owned()));
            pieces.push(Piece::Place { name: name.to_owned(), in_path: place_in_path(&before)? });
            rest = behind;
        }
        if rest.contains('}')
            || pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains('}')))
        {
            return Err("has a } without its {".to_owned());
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { pieces })
    }

    pub(super) fn places(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for piece in &self.pieces {
            if let Piece::Place { name, .. } = piece {
                names.insert(name.as_str());
            }
        }
        names
    }

    /// With something harmless in every place.
    pub(super) fn sample(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Place { .. } => "x".to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }

    pub(super) fn fill(&self, arguments: &Map<String, Value>) -> Result<String, String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Place { name, in_path } => {
                    let value = arguments.get(name).unwrap_or(&Value::Null);
                    let Some(text) = scalar(value) else {
                        return Err(format!(
                            "{name} must be a text, a number or a boolean: it is part of the URL"
                        ));
                    };
                    // `/users/` is another thing than `/users/7`, and some do it to all of them.
                    if *in_path && text.is_empty() {
                        return Err(format!("{name} must not be empty: it is part of the URL's path"));
                    }
                    filled.extend(utf8_percent_encode(&text, ENCODED));
                }
            }
        }
        check_dots(&filled)?;
        Ok(filled)
    }
}

/// A text as it stands in an address or a query; nothing for lists, objects and null.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn place_in_path(before: &str) -> Result<bool, String> {
    let rest = before.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    if !rest.contains(['/', '?', '#']) {
        return Err("must not have places in scheme, host or port".to_owned());
    }
    if rest.contains('#') {
        return Err("must not have places behind a #, which is never sent".to_owned());
    }
    Ok(!rest.contains('?'))
}

/// Segments that are dots lead up, however they are spelled.
fn check_dots(url: &str) -> Result<(), String> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let dots = |segment: &str| {
        let plain = percent_decode_str(segment).decode_utf8_lossy();
        plain == "." || plain == ".."
    };
    if path.split('/').skip(1).any(dots) {
        return Err("what was filled in makes a segment of dots, which would lead elsewhere".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filled(template: &str, arguments: Value) -> Result<String, String> {
        Template::parse(template).unwrap().fill(arguments.as_object().unwrap())
    }

    #[test]
    fn what_is_filled_in_stays_in_its_place() {
        let template = "https://host.example/users/{id}/x?q={q}";
        let fill = |id: Value, q: Value| filled(template, json!({"id": id, "q": q}));
        assert_eq!(fill(json!(7), json!(true)).unwrap(), "https://host.example/users/7/x?q=true");
        assert_eq!(
            fill(json!("a/b?c#d@e:1"), json!("ü &=")).unwrap(),
            "https://host.example/users/a%2Fb%3Fc%23d%40e%3A1/x?q=%C3%BC%20%26%3D"
        );
        assert_eq!(fill(json!("\\..\\"), json!("")).unwrap(), "https://host.example/users/%5C..%5C/x?q=");
        for id in [json!(""), json!("."), json!(".."), json!(null), json!([1]), json!({})] {
            assert!(fill(id.clone(), json!("")).is_err(), "{id}");
        }
        assert!(filled("https://h.example/.{a}", json!({"a": "."})).is_err());
        // The text of a value is a text, not an escape.
        assert_eq!(
            filled("https://h.example/{a}", json!({"a": "%2e%2e"})).unwrap(),
            "https://h.example/%252e%252e"
        );
    }

    #[test]
    fn places_are_never_where_they_choose_who_is_called() {
        for wrong in [
            "https://{host}/",
            "{scheme}://host.example/",
            "https://host.example:{port}/",
            "https://host.example{x}/",
            "{all}",
            "https://host.example/#{x}",
            "https://host.example/{x",
            "https://host.example/x}",
            "https://host.example/{}",
        ] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
        let template = Template::parse("https://host.example/{a}?{b}={a}").unwrap();
        assert_eq!(template.places().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(template.sample(), "https://host.example/x?x=x");
    }
}
