//! The data of attachments: base64 whose first bytes belong to the declared media type. An endpoint rejects a request with
//! other data, and a thread repeats its attachments in every request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The characters in which the signature of a media type is searched. They are whole groups of four.
const HEAD_CHARS: usize = 1368;
/// The signature of PDF documents, which can follow other bytes.
const PDF: &[u8] = b"%PDF-";

/// Checks the data and returns the number of its bytes.
pub(crate) fn check(media_type: &str, data: &str) -> Result<u64, String> {
    let invalid = || "the data is not valid base64".to_owned();
    let content = data.trim_end_matches('=');
    let is_base64 = data.len().is_multiple_of(4)
        && data.len() - content.len() <= 2
        && !content.is_empty()
        && content.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/');
    if !is_base64 {
        return Err(invalid());
    }
    // The last group can have bits that belong to no byte. Strict decoders reject them.
    STANDARD.decode(&data[data.len() - 4..]).map_err(|_| invalid())?;
    let head = STANDARD.decode(&data[..data.len().min(HEAD_CHARS)]).map_err(|_| invalid())?;
    if !has_signature(media_type, &head) {
        return Err(format!("the data is not of the media type {media_type}"));
    }
    Ok((content.len() as u64).saturating_mul(3) / 4)
}

/// Returns true if data of the media type can begin with these bytes.
fn has_signature(media_type: &str, head: &[u8]) -> bool {
    let riff = |form: &[u8]| head.starts_with(b"RIFF") && head.get(8..12) == Some(form);
    match media_type {
        "image/png" => head.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => head.starts_with(b"\xff\xd8\xff"),
        "image/gif" => head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a"),
        "image/webp" => riff(b"WEBP"),
        "application/pdf" => head.windows(PDF.len()).any(|bytes| bytes == PDF),
        "audio/wav" => riff(b"WAVE"),
        // A tag, or the synchronization bits of a frame.
        "audio/mpeg" | "audio/mp3" => {
            head.starts_with(b"ID3") || matches!(head, [0xff, second, ..] if second & 0xe0 == 0xe0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_base64_is_accepted() {
        for data in ["/9j/", "/9j/AA==", "/9j/AAA="] {
            assert!(check("image/jpeg", data).is_ok(), "{data}");
        }
        for data in
            ["", "=", "====", "/9j/A", "/9j/AA", "/9j/AA=", "/9j/A===", "/9j/AB==", "/9j/=AAA", "/9j-"]
        {
            assert_eq!(check("image/jpeg", data).unwrap_err(), "the data is not valid base64", "{data}");
        }
        assert_eq!(check("image/jpeg", "/9j/AAA="), Ok(5));
    }

    #[test]
    fn data_must_begin_with_the_signature_of_its_media_type() {
        let samples: [(&str, &[u8]); 9] = [
            ("image/png", b"\x89PNG\r\n\x1a\n"),
            ("image/jpeg", b"\xff\xd8\xff\xe0"),
            ("image/gif", b"GIF89a"),
            ("image/webp", b"RIFF\x01\x00\x00\x00WEBP"),
            ("application/pdf", b"\n%PDF-1.7"),
            ("audio/wav", b"RIFF\x01\x00\x00\x00WAVE"),
            ("audio/mpeg", b"\xff\xfb\x90"),
            ("audio/mp3", b"ID3\x04"),
            ("text/html", b"<html>"),
        ];
        for (media_type, _) in samples {
            for (of, bytes) in samples {
                let both_mp3 = [media_type, of].iter().all(|one| one.starts_with("audio/mp"));
                let expected = (media_type == of || both_mp3) && media_type != "text/html";
                let accepted = check(media_type, &STANDARD.encode(bytes)).is_ok();
                assert_eq!(accepted, expected, "{media_type} with data of {of}");
            }
        }
    }
}
