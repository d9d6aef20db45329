//! Places in the log of a thread, as callers see them: a run, and the number of an event in it. Opaque to callers.

use holdpoint_core::RunId;

use crate::error::ApiError;

pub(crate) type Place = (RunId, u64);

pub(crate) fn cursor(run: &RunId, seq: u64) -> String {
    format!("{run}.{seq}")
}

/// `field` is where the caller has said it.
pub(crate) fn parse(field: &str, text: &str) -> Result<Place, ApiError> {
    let parsed = text.rsplit_once('.').and_then(|(run, seq)| Some((RunId::parse(run).ok()?, number(seq)?)));
    parsed.ok_or_else(|| unknown(field))
}

pub(crate) fn unknown(field: &str) -> ApiError {
    ApiError::invalid(field, "is not a cursor that this server handed out")
}

/// A number that a database takes, written as we write it.
fn number(seq: &str) -> Option<u64> {
    let number: u64 = seq.parse().ok().filter(|seq| i64::try_from(*seq).is_ok())?;
    (number.to_string() == seq).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written_and_nothing_else_is_one() {
        let run = RunId::parse("0190.child.1").unwrap();
        assert_eq!(parse("after", &cursor(&run, 7)).unwrap(), (run, 7));
        for wrong in
            ["", ".", "7", "run", "run.", ".7", "run.-1", "run.+7", "run.07", "run.9223372036854775808"]
        {
            assert!(parse("after", wrong).is_err(), "{wrong}");
        }
    }
}
