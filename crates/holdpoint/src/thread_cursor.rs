//! Cursors of the log of a thread: a run and the sequence of one of its events. Opaque to callers.

use holdpoint_core::RunId;

use crate::error::ApiError;

pub(crate) type ThreadPosition = (RunId, u64);

pub(crate) fn cursor(run: &RunId, seq: u64) -> String {
    format!("{run}.{seq}")
}

/// Parses a cursor. `field` names the member or parameter that contains it.
pub(crate) fn parse(field: &str, text: &str) -> Result<ThreadPosition, ApiError> {
    let parsed = text.rsplit_once('.').and_then(|(run, seq)| Some((RunId::parse(run).ok()?, number(seq)?)));
    parsed.ok_or_else(|| invalid_cursor(field))
}

pub(crate) fn invalid_cursor(field: &str) -> ApiError {
    ApiError::invalid(field, "is not a cursor of this server")
}

/// Parses a sequence number as [`cursor`] writes it. Rejects numbers that the database cannot store.
fn number(seq: &str) -> Option<u64> {
    let number: u64 = seq.parse().ok().filter(|seq| i64::try_from(*seq).is_ok())?;
    (number.to_string() == seq).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_parsed_as_it_was_written_and_other_texts_are_rejected() {
        let run = RunId::parse("0190.child.1").unwrap();
        assert_eq!(parse("after", &cursor(&run, 7)).unwrap(), (run, 7));
        for wrong in
            ["", ".", "7", "run", "run.", ".7", "run.-1", "run.+7", "run.07", "run.9223372036854775808"]
        {
            assert!(parse("after", wrong).is_err(), "{wrong}");
        }
    }
}
