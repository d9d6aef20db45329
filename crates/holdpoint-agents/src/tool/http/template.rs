//! URL templates with placeholders: `https://host/users/{id}?deep={deep}`. Values are encoded, so that they cannot add
//! a path segment or change the host.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};

/// All characters except the unreserved ones, which have no special meaning in a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Debug)]
pub(super) struct UrlTemplate {
    pieces: Vec<TemplatePart>,
}

#[derive(Clone, Debug)]
enum TemplatePart {
    Text(String),
    Placeholder { name: String, in_path: bool },
}

impl UrlTemplate {
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
                return Err("has a placeholder without a name".to_owned());
            }
            pieces.push(TemplatePart::Text(literal.to_owned()));
            pieces.push(TemplatePart::Placeholder { name: name.to_owned(), in_path: is_in_path(&before)? });
            rest = behind;
        }
        if rest.contains('}')
            || pieces.iter().any(|piece| matches!(piece, TemplatePart::Text(text) if text.contains('}')))
        {
            return Err("has a } without its {".to_owned());
        }
        pieces.push(TemplatePart::Text(rest.to_owned()));
        Ok(Self { pieces })
    }

    pub(super) fn placeholders(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for piece in &self.pieces {
            if let TemplatePart::Placeholder { name, .. } = piece {
                names.insert(name.as_str());
            }
        }
        names
    }

    /// Returns the URL with `x` for every placeholder.
    pub(super) fn sample(&self) -> String {
        let piece = |piece: &TemplatePart| match piece {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Placeholder { .. } => "x".to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }

    pub(super) fn fill(&self, arguments: &Map<String, Value>) -> Result<String, String> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                TemplatePart::Text(text) => filled.push_str(text),
                TemplatePart::Placeholder { name, in_path } => {
                    let value = arguments.get(name).unwrap_or(&Value::Null);
                    let Some(text) = scalar(value) else {
                        return Err(format!(
                            "{name} must be a string, a number or a boolean: it is part of the URL"
                        ));
                    };
                    // `/users/` is a different resource from `/users/7`; a request to it could affect all users.
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

/// Returns the text of a value in a URL. None for lists, objects and null.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_in_path(before: &str) -> Result<bool, String> {
    let rest = before.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
    if !rest.contains(['/', '?', '#']) {
        return Err("must not have placeholders in scheme, host or port".to_owned());
    }
    if rest.contains('#') {
        return Err("must not have placeholders in the fragment, which is never sent".to_owned());
    }
    Ok(!rest.contains('?'))
}

/// Rejects path segments of dots in any encoding, because they lead to a parent path.
fn check_dots(url: &str) -> Result<(), String> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let dots = |segment: &str| {
        let plain = percent_decode_str(segment).decode_utf8_lossy();
        plain == "." || plain == ".."
    };
    if path.split('/').skip(1).any(dots) {
        return Err(
            "the arguments result in a path segment of dots, which would lead to another path".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filled(template: &str, arguments: Value) -> Result<String, String> {
        UrlTemplate::parse(template).unwrap().fill(arguments.as_object().unwrap())
    }

    #[test]
    fn a_value_cannot_change_the_structure_of_the_url() {
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
        // Percent signs in a value are encoded.
        assert_eq!(
            filled("https://h.example/{a}", json!({"a": "%2e%2e"})).unwrap(),
            "https://h.example/%252e%252e"
        );
    }

    #[test]
    fn placeholders_in_scheme_host_port_or_fragment_are_rejected() {
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
            assert!(UrlTemplate::parse(wrong).is_err(), "{wrong}");
        }
        let template = UrlTemplate::parse("https://host.example/{a}?{b}={a}").unwrap();
        assert_eq!(template.placeholders().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(template.sample(), "https://host.example/x?x=x");
    }
}
