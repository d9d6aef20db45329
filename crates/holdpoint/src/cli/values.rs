//! Reads values from arguments, files and standard input. Judges their form, never their meaning.

use std::io::Read;

use serde_json::{Map, Value};

use super::failure::Failure;

/// `name=value`. The value is JSON if it reads as JSON, else a string.
pub(crate) fn pair(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()));
            Ok((name.to_string(), value))
        }
        _ => Err("write it as name=value".to_string()),
    }
}

/// `JSON`, `@file` or `-` for standard input.
pub(crate) fn json(flag: &str, source: &str) -> Result<Value, Failure> {
    let text = match source.strip_prefix('@') {
        Some(path) => read(path)?,
        None if source == "-" => read("-")?,
        None => source.to_string(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{flag}: not JSON: {error}")).hint(format!(
            "write {flag} '{{\"name\": \"value\"}}', {flag} @file.json or {flag} - for standard input"
        ))
    })
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read(path: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let result = match path {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(path),
    };
    result.map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))
}

/// The object of `--inputs`, completed and overruled by each `--input`.
pub(crate) fn inputs(all: Option<&str>, pairs: Vec<(String, Value)>) -> Result<Value, Failure> {
    let mut inputs = match all.map(|source| json("--inputs", source)).transpose()? {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(Failure::usage("--inputs: the JSON must be an object of names and values")),
    };
    inputs.extend(unique("--input", pairs)?);
    Ok(Value::Object(inputs))
}

/// A name given twice is a slip of the hand, and guessing which one counts would hide it.
pub(crate) fn unique(flag: &str, pairs: Vec<(String, Value)>) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    for (name, value) in pairs {
        if map.contains_key(&name) {
            return Err(Failure::usage(format!("{flag}: `{name}` is given twice")));
        }
        map.insert(name, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as j;

    #[test]
    fn a_pair_is_json_where_it_can_be_and_text_otherwise() {
        for (text, value) in [
            ("a=1", j!(1)),
            ("a=true", j!(true)),
            ("a=\"1\"", j!("1")),
            ("a=one two", j!("one two")),
            ("a=x=y", j!("x=y")),
            ("a=", j!("")),
            ("a={\"b\":[1]}", j!({"b": [1]})),
        ] {
            assert_eq!(pair(text), Ok(("a".to_string(), value)), "{text}");
        }
        assert!(pair("a").is_err() && pair("=1").is_err());
    }

    #[test]
    fn single_inputs_overrule_the_object() {
        let pairs = vec![("b".to_string(), j!(3))];
        assert_eq!(inputs(Some(r#"{"a":1,"b":2}"#), pairs).expect("an object"), j!({"a": 1, "b": 3}));
        assert_eq!(inputs(None, vec![]).expect("nothing"), j!({}));
    }

    #[test]
    fn what_is_no_object_or_given_twice_is_refused() {
        assert!(inputs(Some("[1]"), vec![]).is_err());
        assert!(inputs(Some("{"), vec![]).is_err());
        assert!(inputs(Some("@/nonexistent/file"), vec![]).is_err());
        let twice = vec![("a".to_string(), j!(1)), ("a".to_string(), j!(2))];
        assert!(inputs(None, twice).expect_err("given twice").to_string().contains("given twice"));
    }
}
