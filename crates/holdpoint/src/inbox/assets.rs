//! The files of the page, inside the program. One hash over all of them stands in their URLs, so that browsers may
//! keep them for good and modules still find each other by relative names.

use std::sync::LazyLock;

use holdpoint_core::hex;
use sha2::{Digest, Sha256};

pub(super) const INDEX: &str = include_str!("page/index.html");
pub(super) const LINK: &str = include_str!("page/link.html");

pub(super) struct Asset {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal,)*) => {
        &[$(Asset { name: $name, bytes: include_bytes!(concat!("page/", $name)) }),*]
    };
}

/// A new file of the page is a line here.
static ASSETS: &[Asset] = assets![
    "allowed.js",
    "api.js",
    "app.js",
    "css/base.css",
    "css/form.css",
    "css/graph.css",
    "css/link.css",
    "css/list.css",
    "css/pause.css",
    "css/run.css",
    "css/shell.css",
    "css/show.css",
    "css/toolbar.css",
    "decide/approval.js",
    "decide/clarification.js",
    "decide/composite.js",
    "decide/conversation.js",
    "decide/custom.js",
    "decide/external_event.js",
    "decide/governed.js",
    "decide/history.js",
    "decide/kinds.js",
    "decide/low_confidence.js",
    "decide/model.js",
    "decide/outcome.js",
    "decide/page.js",
    "decide/panel.js",
    "decide/people.js",
    "decide/questions.js",
    "decide/refine.js",
    "decide/refusals.js",
    "decide/sending.js",
    "decide/store.js",
    "decide/tool_call.js",
    "dialog.js",
    "dom.js",
    "form/errors.js",
    "form/fields.js",
    "form/json_editor.js",
    "form/json_text.js",
    "form/judge.js",
    "form/labels.js",
    "form/lists.js",
    "form/plan.js",
    "form/read.js",
    "form/schema.js",
    "form/state.js",
    "graph/arrange.js",
    "graph/draw.js",
    "graph/layout.js",
    "keys.js",
    "link.js",
    "list/bulk.js",
    "list/bulk_dialog.js",
    "list/empty.js",
    "list/model.js",
    "list/moving.js",
    "list/pager.js",
    "list/pages.js",
    "list/query.js",
    "list/rows.js",
    "list/toolbar.js",
    "live.js",
    "router.js",
    "runs/model.js",
    "runs/rows.js",
    "show/artifact.js",
    "show/characters.js",
    "show/compare.js",
    "show/diff.js",
    "show/diff_json.js",
    "show/diff_text.js",
    "show/digest.js",
    "show/json_tree.js",
    "show/markdown.js",
    "show/markdown_inline.js",
    "show/markdown_list.js",
    "show/markdown_table.js",
    "show/patch.js",
    "show/scalar.js",
    "show/table.js",
    "show/text.js",
    "show/time.js",
    "show/words.js",
    "texts.js",
    "texts/form.js",
    "texts/graph.js",
    "texts/link.js",
    "texts/list.js",
    "texts/pause.js",
    "texts/run.js",
    "texts/runs.js",
    "texts/shell.js",
    "texts/show.js",
    "timeline/control.js",
    "timeline/detail.js",
    "timeline/events.js",
    "timeline/head.js",
    "timeline/model.js",
    "timeline/snapshots.js",
    "timeline/steps.js",
    "views/account.js",
    "views/link.js",
    "views/list.js",
    "views/pause.js",
    "views/run.js",
    "views/runs.js",
    "views/signin.js",
    "views/top.js",
    "views/welcome.js",
];

/// Where the pages say that their files are. What stands for it depends on where the page is.
const PLACE: &str = "{{assets}}/";

/// Of all files together: with any of them all URLs change.
pub(super) fn hash() -> &'static str {
    static HASH: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = Sha256::new();
        for asset in ASSETS {
            for part in [asset.name.as_bytes(), asset.bytes] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        hex(&hasher.finalize()[..10])
    });
    &HASH
}

pub(super) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
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
    use std::path::Path;

    fn collect(folder: &Path, top: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, top, found);
            } else {
                found.push(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_served_as_what_it_is() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/inbox/page");
        let mut there = Vec::new();
        collect(&top, &top, &mut there);
        there.retain(|name| !["index.html", "link.html"].contains(&name.as_str()));
        there.sort();
        let mut served: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        served.sort_unstable();
        assert_eq!(served, there, "a file of page/ is a line in ASSETS");
        assert!(served.iter().all(|name| media_type(name) != "application/octet-stream"), "{served:?}");
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
