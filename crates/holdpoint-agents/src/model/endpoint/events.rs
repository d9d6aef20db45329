//! An incremental parser of server-sent events. Only `data` is kept; comments and other fields are skipped.

/// The error of an event that is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

#[derive(Debug)]
pub(super) struct EventParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return. A line feed after it belongs to the same line end.
    after_return: bool,
    begun: bool,
    bytes_max: usize,
}

impl EventParser {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_return: false,
            begun: false,
            bytes_max,
        }
    }

    /// Returns the data of each event that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut complete = Vec::new();
        for byte in bytes {
            let follows_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if follows_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    complete.extend(self.end_line());
                }
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > self.bytes_max {
                return Err(TooLong);
            }
        }
        Ok(complete)
    }

    /// Returns the data of an event without a final empty line, which some servers omit.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        let by_line = if self.line.is_empty() { None } else { self.end_line() };
        by_line.or_else(|| self.has_data.then_some(self.data))
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = if std::mem::replace(&mut self.begun, true) {
            line.as_slice()
        } else {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line)
        };
        if line.is_empty() {
            return std::mem::take(&mut self.has_data).then(|| std::mem::take(&mut self.data));
        }
        let value = line.strip_prefix(b"data").and_then(|rest| match rest {
            [] => Some(rest),
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            _ => None,
        })?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], piece: usize) -> Vec<String> {
        let mut events = EventParser::new(1000);
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            found.extend(events.push(piece).unwrap());
        }
        found.extend(events.finish());
        found.into_iter().map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[test]
    fn the_events_do_not_depend_on_how_the_bytes_are_split() {
        let table: [(&str, &[&str]); 9] = [
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            ("data:a\n\ndata:  b\n\n", &["a", " b"]),
            (": keep-alive\n\nevent: x\nid: 1\ndata: a\nretry: 5\n\n:\n\n", &["a"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("\u{feff}data: ä€😀\n\n", &["ä€😀"]),
            ("data: a\n\ndata: b", &["a", "b"]),
            ("data\n\ndatabase: a\n\ndata: b\n", &["", "b"]),
        ];
        for (text, expected) in table {
            for piece in [1, 2, 3, 5, 7, 1000] {
                assert_eq!(read(text.as_bytes(), piece), expected, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn an_event_above_the_limit_is_rejected() {
        let mut events = EventParser::new(1000);
        assert_eq!(events.push(&[b'x'; 1001]), Err(TooLong));
        let mut events = EventParser::new(1000);
        assert_eq!(events.push("data: xxxxxxx\n".repeat(200).as_bytes()), Err(TooLong));
    }
}
