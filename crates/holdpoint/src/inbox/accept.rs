//! Chooses between the page and JSON by the `Accept` header. A client without a preference gets JSON.

use axum::http::{HeaderMap, header};

/// Returns true if the client prefers a page to JSON.
pub(super) fn prefers_page(headers: &HeaderMap) -> bool {
    let texts: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let text = texts.join(",");
    quality(&text, "text/html") > quality(&text, "application/json")
}

/// Returns the quality of a media type, from the most specific entry that matches it.
fn quality(accept: &str, wanted: &str) -> f32 {
    let family = wanted.split('/').next().unwrap_or_default();
    let mut best = (0, 0.0);
    for entry in accept.split(',') {
        let mut parts = entry.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let fit = if media == wanted {
            3
        } else if media.strip_suffix("/*") == Some(family) {
            2
        } else if media == "*/*" {
            1
        } else {
            continue;
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
        if fit > best.0 {
            best = (fit, weight.unwrap_or(0.0));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn browsers_get_the_page_and_other_clients_get_json() {
        for (accept, page) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("text/html", true),
            ("Text/HTML;q=0.5", true),
            ("text/*, application/json;q=0.9", true),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("application/json, text/html;q=0.9", false),
            ("text/html;q=0", false),
            ("text/html;q=nonsense", false),
            ("text/plain", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_page(&headers), page, "{accept}");
        }
        assert!(!prefers_page(&HeaderMap::new()));
    }
}
