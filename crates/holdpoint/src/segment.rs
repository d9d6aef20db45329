//! Parts of paths and queries. Ids may have anything in them.

/// One part of a path or query, so that an id from outside cannot become two parts or a query.
pub(crate) fn encode(text: &str) -> String {
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
    fn an_id_stays_one_part_of_the_path() {
        assert_eq!(encode("run_1-a.b~c"), "run_1-a.b~c");
        assert_eq!(encode("../a?b=ü&c d"), "..%2Fa%3Fb%3D%C3%BC%26c%20d");
    }
}
