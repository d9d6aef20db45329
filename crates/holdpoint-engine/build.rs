//! Lists the files of `src/store/migrations` for `store/migrations.rs`, in the order of their numbers.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/migrations");
    println!("cargo::rerun-if-changed={}", folder.display());
    let files: std::io::Result<Vec<PathBuf>> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut files = files?;
    files.sort();
    let mut list = String::new();
    for (at, file) in files.iter().enumerate() {
        let number = format!("{:04}_", at + 1);
        let is_next = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&number));
        assert!(is_next, "{}: the name of the next migration must begin with {number}", file.display());
        list.push_str(&format!("include_str!({file:?}),\n"));
    }
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    fs::write(Path::new(&out).join("migrations.rs"), format!("&[\n{list}]\n"))
}
