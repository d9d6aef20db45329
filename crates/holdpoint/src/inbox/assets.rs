//! The files of the page, embedded in the program. Their URLs contain one hash over all files, so that browsers may
//! cache them without end and modules can import each other by relative paths.

use std::borrow::Cow;
use std::sync::LazyLock;

use holdpoint_core::hex;
use rust_embed::Embed;
use sha2::{Digest, Sha256};

pub(super) const INDEX: &str = include_str!("page/index.html");
pub(super) const LINK: &str = include_str!("page/link.html");

/// The files of the page. The two documents among them are served at other paths.
#[derive(Embed)]
#[folder = "src/inbox/page"]
struct Files;

/// Placeholder in the pages for the path of the files, which depends on the path of the page.
const ASSETS_PLACEHOLDER: &str = "{{assets}}/";

/// Returns the hash over all files. A change of one file changes all URLs.
pub(super) fn hash() -> &'static str {
    static HASH: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = Sha256::new();
        let mut names: Vec<_> = Files::iter().collect();
        names.sort_unstable();
        for name in names {
            let bytes = find(&name).unwrap_or_default();
            for part in [name.as_bytes(), &bytes] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        hex(&hasher.finalize()[..10])
    });
    &HASH
}

pub(super) fn find(name: &str) -> Option<Cow<'static, [u8]>> {
    Files::get(name).filter(|_| !name.ends_with(".html")).map(|file| file.data)
}

/// Returns a page for a path that is `depth` folders below the root. Its relative URLs also work behind a proxy that
/// adds a prefix to all paths.
pub(super) fn page(text: &str, depth: usize) -> String {
    text.replace(ASSETS_PLACEHOLDER, &format!("{}inbox/assets/{}/", "../".repeat(depth), hash()))
}

/// Returns the media type of a file. The responses forbid browsers to guess it.
pub(super) fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_has_a_media_type() {
        let names: Vec<_> = Files::iter().filter(|name| !name.ends_with(".html")).collect();
        assert!(names.len() > 50, "{names:?}");
        assert!(names.iter().all(|name| media_type(name) != "application/octet-stream"), "{names:?}");
        assert!(find("app.js").is_some() && find("index.html").is_none() && find("../page.rs").is_none());
    }

    #[test]
    fn the_pages_have_no_inline_scripts_or_styles_and_load_existing_files() {
        for text in [INDEX, LINK] {
            for forbidden in
                ["<style", " style=", "javascript:", " onclick=", " onload=", "http://", "https://"]
            {
                assert!(!text.contains(forbidden), "{forbidden}");
            }
            assert!(text.split("<script").skip(1).all(|script| script.contains("></script>")), "{text}");
            let named =
                text.split(ASSETS_PLACEHOLDER).skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
            let named: Vec<&str> = named.collect();
            assert!(!named.is_empty());
            named.iter().for_each(|name| assert!(find(name).is_some(), "{name}"));
        }
        assert!(page(INDEX, 1).contains(&format!("\"../inbox/assets/{}/app.js\"", hash())));
        assert!(!page(LINK, 2).contains(ASSETS_PLACEHOLDER));
    }
}
