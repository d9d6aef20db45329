//! Where signed links lead, how long they may live and how often they may be tried, as an operator says it.

use anyhow::bail;
use clap::Args;
use holdpoint_engine::Engine;

pub(super) use crate::links::Settings;

const HEADING: &str = "Signed links";
const LIFE_SECONDS_MIN: u64 = 60;
const LIFE_SECONDS_MAX: u64 = Engine::LINK_LIFE_MS_MAX / 1000;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LinkArgs {
    /// What links begin with, as others reach this server: https://holdpoint.example.com
    /// [default: http:// or, with TLS, https:// and the address that is listened on]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Seconds that a link may be good for at most, up to 2592000 (30 days) [default: 604800, a week]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_LINK_SECONDS_MAX", value_name = "N")]
    link_seconds_max: Option<u64>,
    /// Requests a second that one question takes over links in each name, and bad links that may be tried from each
    /// address and from everywhere together; more get 429. 0 means no limit [default: 20]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_LINK_RATE_LIMIT", value_name = "N")]
    link_rate_limit: Option<u32>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct LinkFile {
    pub public_url: Option<String>,
    pub link_seconds_max: Option<u64>,
    pub link_rate_limit: Option<u32>,
}

/// Complete but for the address, which is known when it is listened on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    public_url: Option<String>,
    life_ms_max: u64,
    rate_limit: Option<u32>,
}

impl LinkArgs {
    pub(super) fn or(self, file: LinkFile) -> anyhow::Result<LinkSettings> {
        let seconds = self.link_seconds_max.or(file.link_seconds_max);
        let seconds = seconds.unwrap_or(Settings::LIFE_SECONDS_MAX_DEFAULT);
        if !(LIFE_SECONDS_MIN..=LIFE_SECONDS_MAX).contains(&seconds) {
            bail!("--link-seconds-max must be {LIFE_SECONDS_MIN} to {LIFE_SECONDS_MAX}");
        }
        let rate = self.link_rate_limit.or(file.link_rate_limit).unwrap_or(Settings::RATE_DEFAULT);
        Ok(LinkSettings {
            public_url: self.public_url.or(file.public_url).as_deref().map(base).transpose()?,
            life_ms_max: seconds * 1000,
            rate_limit: (rate > 0).then_some(rate),
        })
    }
}

impl LinkSettings {
    pub(crate) fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Returns the settings of a server that clients on this machine reach at `own_url`.
    pub(crate) fn at(&self, own_url: &str) -> Settings {
        Settings {
            public_url: self.public_url().unwrap_or(own_url).to_owned(),
            page_base: self.public_url().unwrap_or_default().to_owned(),
            life_ms_max: self.life_ms_max,
            rate_limit: self.rate_limit,
        }
    }
}

/// A URL that a path can follow.
fn base(text: &str) -> anyhow::Result<String> {
    let text = text.trim_end_matches('/');
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let odd = |c: char| !c.is_ascii_graphic() || "?#@\"<>\\".contains(c);
    if !fits || text.contains(odd) {
        bail!("--public-url must be like https://holdpoint.example.com or https://example.com/holdpoint");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(args: LinkArgs) -> Option<Settings> {
        args.or(LinkFile::default()).ok().map(|settings| settings.at("http://127.0.0.1:8484"))
    }

    #[test]
    fn without_a_word_links_lead_to_the_address_that_is_listened_on() {
        let found = settings(LinkArgs::default()).unwrap();
        assert_eq!(found, Settings { public_url: "http://127.0.0.1:8484".to_owned(), ..Settings::default() });
    }

    #[test]
    fn a_public_url_is_one_that_a_path_can_follow() {
        let of = |url: &str| {
            settings(LinkArgs { public_url: Some(url.to_owned()), ..LinkArgs::default() })
                .map(|settings| settings.public_url)
        };
        for (given, base) in [
            ("https://a.example", Some("https://a.example")),
            ("https://a.example/", Some("https://a.example")),
            ("http://a.example:1/b/", Some("http://a.example:1/b")),
            ("ftp://a.example", None),
            ("a.example", None),
            ("https://", None),
            ("https:///b", None),
            ("https://u:p@a.example", None),
            ("https://a.example?b", None),
            ("https://a.example/#b", None),
            ("https://a b", None),
        ] {
            assert_eq!(of(given).as_deref(), base, "{given}");
        }
    }

    #[test]
    fn limits_have_limits() {
        let life = |seconds| {
            settings(LinkArgs { link_seconds_max: Some(seconds), ..LinkArgs::default() })
                .map(|settings| settings.life_ms_max)
        };
        assert_eq!((life(60), life(2_592_000)), (Some(60_000), Some(Engine::LINK_LIFE_MS_MAX)));
        assert_eq!((life(59), life(2_592_001)), (None, None));
        let none = LinkArgs { link_rate_limit: Some(0), ..LinkArgs::default() };
        assert_eq!(settings(none).unwrap().rate_limit, None);
        let file = LinkFile { link_rate_limit: Some(3), ..LinkFile::default() };
        assert_eq!(LinkArgs::default().or(file).unwrap().rate_limit, Some(3));
    }
}
