//! Settings of CORS: the origins whose pages may call this server from browsers.

use anyhow::bail;
use clap::Args;

#[derive(Clone, Debug, Args)]
pub(crate) struct CorsArgs {
    /// Allows pages of this origin to call the API from browsers, such as https://app.example.com; * allows all. Repeat
    /// for more, or separate them by commas [default: none]
    #[arg(
        long = "cors-origin",
        env = "HOLDPOINT_CORS_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    cors_origins: Vec<String>,
}

impl CorsArgs {
    pub(super) fn into_settings(self) -> anyhow::Result<Vec<String>> {
        let chosen: Vec<String> = self.cors_origins.iter().map(|origin| origin.trim().to_owned()).collect();
        // An origin with a path or a trailing slash never matches the header that browsers send.
        match chosen.iter().find(|origin| *origin != "*" && !is_origin(origin)) {
            Some(wrong) => {
                bail!("--cors-origin {wrong:?}: must be a scheme and a host, such as https://app.example.com")
            }
            None => Ok(chosen),
        }
    }
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let plain = |c: char| c.is_ascii_graphic() && !"/?#@".contains(c);
    ["http", "https"].contains(&scheme) && !host.is_empty() && host.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        let chosen = |origins: &[&str]| {
            CorsArgs { cors_origins: origins.iter().map(|one| (*one).to_owned()).collect() }
                .into_settings()
                .ok()
        };
        assert_eq!(chosen(&[]), Some(vec![]), "off unless set");
        assert_eq!(chosen(&[" http://localhost:3000"]).unwrap(), ["http://localhost:3000"]);
        assert_eq!(chosen(&["*"]).unwrap(), ["*"]);
        for wrong in ["localhost:3000", "https://a/", "https://a/b", "ftp://a", "https://", "https://u@a", ""]
        {
            assert_eq!(chosen(&[wrong]), None, "{wrong}");
        }
    }
}
