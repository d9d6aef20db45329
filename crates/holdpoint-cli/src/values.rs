//! Reads values from arguments, files and standard input. Checks their form, not their meaning.

use std::io::Read;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};

use holdpoint_api::Object;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::failure::Failure;

/// Parses `name=value`. The value is JSON if it parses as JSON, otherwise a string.
pub fn pair(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()));
            Ok((name.to_string(), value))
        }
        _ => Err("must have the form name=value".to_string()),
    }
}

/// Parses the JSON of a flag: the text itself, `@file` or `-` for standard input.
pub fn json(flag: &str, source: &str) -> Result<Value, Failure> {
    let text = match source.strip_prefix('@') {
        Some(path) => read(path)?,
        None if source == "-" => read("-")?,
        None => source.to_string(),
    };
    parse_json(flag, &text)
}

/// Parses the JSON text of a flag.
pub fn parse_json(flag: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("{flag}: not JSON: {error}")).hint(format!(
            "use {flag} '{{\"name\": \"value\"}}', {flag} @file.json or {flag} - for standard input"
        ))
    })
}

/// Returns the text of a file, or of standard input for `-`.
pub fn read(path: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let result = match path {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| text),
        _ => std::fs::read_to_string(path),
    };
    result.map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))
}

/// Reads the object of a flag. Returns None if the flag is not given.
pub fn object(flag: &str, source: Option<&str>) -> Result<Option<Object>, Failure> {
    match source.map(|source| json(flag, source)).transpose()? {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(Object(map))),
        Some(_) => Err(Failure::usage(format!("{flag}: the JSON must be an object of names and values"))),
    }
}

/// Reads the object of `--inputs`. Each `--input` adds or replaces a member.
pub fn inputs(all: Option<&str>, pairs: Vec<(String, Value)>) -> Result<Object, Failure> {
    let mut inputs = object("--inputs", all)?.unwrap_or_default();
    inputs.0.extend(unique("--input", pairs)?);
    Ok(inputs)
}

/// Returns the pairs as a map. Rejects a name that is given twice.
pub fn unique(flag: &str, pairs: Vec<(String, Value)>) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    for (name, value) in pairs {
        if map.contains_key(&name) {
            return Err(Failure::usage(format!("{flag}: `{name}` is given twice")));
        }
        map.insert(name, value);
    }
    Ok(map)
}

/// Parses a duration of at least one second.
pub fn seconds(text: &str) -> Result<u64, String> {
    seconds_within(text, 1..)
        .ok_or_else(|| "must be a number and a unit (s, m, h, d or w), such as 30d".to_owned())
}

/// Parses a duration: `0`, `90s`, `15m`, `12h`, `30d`, `2w`. Returns None if it is outside of the range.
pub fn seconds_within(text: &str, range: impl RangeBounds<u64>) -> Option<u64> {
    const UNITS: [(char, u64); 5] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let with_unit =
        |(unit, seconds): (char, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds);
    let seconds = if text == "0" { Some(0) } else { UNITS.into_iter().find_map(with_unit) };
    seconds.filter(|seconds| range.contains(seconds))
}

/// Parses an instant, a day, or a time before now. Returns the instant in its form on the wire.
pub fn instant(text: &str) -> Result<String, String> {
    let ago = seconds(text).ok().and_then(|seconds| i64::try_from(seconds).ok());
    let past = ago.and_then(|ago| Timestamp::now().checked_sub(SignedDuration::from_secs(ago)).ok());
    // A time without a zone is not an instant. `Date` accepts one and ignores the time.
    let is_day = text.len() == "2026-05-01".len();
    let day = || {
        text.parse::<Date>().ok().filter(|_| is_day)?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp())
    };
    let found = past.or_else(|| text.parse().ok()).or_else(day);
    found.map(|at| at.to_string()).ok_or_else(|| {
        "must be an instant such as 2026-05-01T10:00:00Z, a day such as 2026-05-01 (UTC), or a time span before now such as 15m, 12h or 30d"
            .to_string()
    })
}

/// Parses an instant with its zone.
pub fn zoned_instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "must be an instant such as 2026-05-01T10:00:00Z".to_owned())
}

/// Reads the definition in a file. Returns its id, from the member `id_member`, and its text.
pub fn definition(file: &str, id_member: &str) -> Result<(String, String), Failure> {
    let text = read(file)?;
    let definition: Value =
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{file}: not JSON: {error}")))?;
    match definition.get(id_member).and_then(Value::as_str) {
        Some(id) if !id.is_empty() => Ok((id.to_owned(), text)),
        _ => Err(Failure::usage(format!("{file}: not a definition: it has no `{id_member}`"))),
    }
}

/// Returns the file of an argument, or the `.json` files of a folder.
pub fn definition_files(named: &str) -> Vec<Result<String, Failure>> {
    if named == "-" || !Path::new(named).is_dir() {
        return vec![Ok(named.to_string())];
    }
    match json_files(Path::new(named)) {
        Ok(found) if found.is_empty() => {
            vec![Err(Failure::usage(format!("{named}: no .json file in this folder")))]
        }
        Ok(found) => found.iter().map(|path| Ok(path.to_string_lossy().into_owned())).collect(),
        Err(error) => vec![Err(Failure::usage(format!("cannot read {named}: {error}")))],
    }
}

/// Returns the `.json` files of a folder, sorted by name.
pub fn json_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as j;

    #[test]
    fn a_value_is_json_if_it_parses_as_json_and_text_otherwise() {
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
    fn single_inputs_replace_members_of_the_object() {
        let pairs = vec![("b".to_string(), j!(3))];
        let object = inputs(Some(r#"{"a":1,"b":2}"#), pairs).expect("an object");
        assert_eq!(Value::Object(object.0), j!({"a": 1, "b": 3}));
        assert_eq!(inputs(None, vec![]).expect("no inputs"), Object::default());
    }

    #[test]
    fn inputs_that_are_not_an_object_or_given_twice_are_rejected() {
        assert!(inputs(Some("[1]"), vec![]).is_err());
        assert!(inputs(Some("{"), vec![]).is_err());
        assert!(inputs(Some("@/nonexistent/file"), vec![]).is_err());
        let twice = vec![("a".to_string(), j!(1)), ("a".to_string(), j!(2))];
        assert!(inputs(None, twice).expect_err("given twice").to_string().contains("given twice"));
    }

    #[test]
    fn a_duration_is_a_number_and_a_unit_within_a_range() {
        assert_eq!(seconds("30d"), Ok(2_592_000));
        assert_eq!((seconds("90s"), seconds("15m"), seconds("12h")), (Ok(90), Ok(900), Ok(43_200)));
        assert_eq!(seconds("2w"), Ok(1_209_600));
        for bad in ["", "d", "30", "0d", "-1d", "1.5h", "30 d", "1ü", "99999999999999999999w"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!((seconds_within("0", 0..), seconds_within("0h", 0..)), (Some(0), Some(0)));
        assert_eq!((seconds_within("1m", ..=60), seconds_within("61s", ..=60)), (Some(60), None));
    }

    #[test]
    fn an_instant_is_a_timestamp_or_a_day_or_a_time_before_now() {
        assert_eq!(instant("2026-05-01T10:00:00+02:00"), Ok("2026-05-01T08:00:00Z".to_string()));
        assert_eq!(instant("2026-05-01"), Ok("2026-05-01T00:00:00Z".to_string()));
        let hour: Timestamp = instant("1h").expect("a span").parse().expect("an instant");
        let seconds = Timestamp::now().as_second() - hour.as_second();
        assert!((3600..3660).contains(&seconds), "{seconds}");
        for bad in ["", "yesterday", "2026-13-01", "10:00", "1y", "9999999999999w", "2026-05-01T10:00:00"] {
            assert!(instant(bad).is_err(), "{bad}");
        }
    }
}
