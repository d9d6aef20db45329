//! Percent-encoding of ids, which may contain any character, for paths and queries of URLs.

/// Encodes an id as one segment of a path or one value of a query.
pub fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_one_segment() {
        assert_eq!(encode_segment("run_1-a.b~c"), "run_1-a.b~c");
        assert_eq!(encode_segment("../a?b=ü&c d"), "..%2Fa%3Fb%3D%C3%BC%26c%20d");
    }
}
