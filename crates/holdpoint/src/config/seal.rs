//! Settings of the key that seals secrets in the database.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use holdpoint_engine::{Options, SealKey};

const VARIABLE: &str = "HOLDPOINT_SEAL_KEY";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SealArgs {
    /// File with the key that seals secrets in the database; created at the first start. All nodes of a database need the
    /// same key: copy the file, or set HOLDPOINT_SEAL_KEY to its content [default: seal.key in the data folder]
    #[arg(long, env = "HOLDPOINT_SEAL_KEY_FILE", value_name = "FILE")]
    seal_key_file: Option<PathBuf>,
}

/// The key itself, or its file. The engine reads the file when it opens the database, and creates it if the database has
/// no key yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SealSettings {
    Key(SealKey),
    File(PathBuf),
}

impl SealArgs {
    /// Ignores the file if the variable has the key.
    pub(super) fn prefer_variable(&mut self) {
        if std::env::var_os(VARIABLE).is_some_and(|text| !text.is_empty()) {
            self.seal_key_file = None;
        }
    }

    pub(super) fn into_settings(
        self,
        data: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<SealSettings> {
        match (variable(VARIABLE).filter(|text| !text.is_empty()), self.seal_key_file) {
            (Some(_), Some(_)) => bail!("{VARIABLE} and --seal-key-file are both set; set only one of them"),
            (Some(text), None) => Ok(SealSettings::Key(text.parse().context(VARIABLE)?)),
            (None, path) => Ok(SealSettings::File(path.unwrap_or_else(|| data.join("seal.key")))),
        }
    }
}

impl SealSettings {
    pub(crate) fn apply(&self, options: Options) -> Options {
        match self {
            Self::Key(key) => options.seal_key(key.clone()),
            Self::File(path) => options.seal_key_file(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    fn load_seal(file: Option<&str>, key: Option<&str>) -> anyhow::Result<SealSettings> {
        let args = SealArgs { seal_key_file: file.map(Into::into) };
        args.into_settings(Path::new("data"), |_| key.map(str::to_owned))
    }

    #[test]
    fn the_key_file_is_in_the_data_folder_unless_set() {
        let at = |path: &str| SealSettings::File(path.into());
        assert_eq!(load_seal(None, None).unwrap(), at("data/seal.key"));
        assert_eq!(load_seal(Some("set"), Some("")).unwrap(), at("set"));
        assert_eq!(load_seal(None, Some(KEY)).unwrap(), SealSettings::Key(KEY.parse().unwrap()));
    }

    #[test]
    fn two_keys_or_an_invalid_key_are_errors_that_do_not_show_the_key() {
        for (flag, key) in [(Some("flag"), KEY), (None, "AAAAsecret")] {
            let error = format!("{:#}", load_seal(flag, Some(key)).unwrap_err());
            assert!(error.contains(VARIABLE) && !error.contains("AAAA"), "{error}");
        }
    }
}
