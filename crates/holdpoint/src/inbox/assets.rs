//! The files of the page, inside the program. One hash over all of them stands in their URLs, so that browsers may
//! keep them for good and modules still find each other by relative names.

use std::borrow::Cow;
use std::sync::LazyLock;

use holdpoint_core::hex;
use rust_embed::Embed;
use sha2::{Digest, Sha256};

pub(super) const INDEX: &str = include_str!("page/index.html");
pub(super) const LINK: &str = include_str!("page/link.html");

/// The files of the page. The two documents among them are served at other addresses.
#[derive(Embed)]
#[folder = "src/inbox/page"]
struct Files;

/// Where the pages say that their files are. What stands for it depends on where the page is.
const PLACE: &str = "{{assets}}/";

/// Of all files together: with any of them all URLs change.
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

/// A page that lies `depth` folders below the top: it finds its files from there, also behind a proxy that puts
/// something before all paths.
pub(super) fn page(text: &str, depth: usize) -> String {
    text.replace(PLACE, &format!("{}inbox/assets/{}/", "../".repeat(depth), hash()))
}

/// What browsers must be told, because they may not guess.
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
    fn the_pages_have_no_script_and_no_style_of_their_own_and_load_what_is_there() {
        for text in [INDEX, LINK] {
            for forbidden in
                ["<style", " style=", "javascript:", " onclick=", " onload=", "http://", "https://"]
            {
                assert!(!text.contains(forbidden), "{forbidden}");
            }
            assert!(text.split("<script").skip(1).all(|script| script.contains("></script>")), "{text}");
            let named = text.split(PLACE).skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
            let named: Vec<&str> = named.collect();
            assert!(!named.is_empty());
            named.iter().for_each(|name| assert!(find(name).is_some(), "{name}"));
        }
        assert!(page(INDEX, 1).contains(&format!("\"../inbox/assets/{}/app.js\"", hash())));
        assert!(!page(LINK, 2).contains(PLACE));
    }
}
