//! Where signed links lead, how long they may live and how often they may be tried, as an operator says it.

use clap::Args;
use holdpoint_engine::Engine;

pub(super) use crate::links::Settings;

const HEADING: &str = "Signed links";
const LIFE_SECONDS_MIN: u64 = 60;
const LIFE_SECONDS_MAX: u64 = Engine::LINK_LIFE_MS_MAX / 1000;

#[derive(Clone, Debug, Args)]
pub(crate) struct LinkArgs {
    /// What links begin with, as others reach this server: https://holdpoint.example.com
    /// [default: http:// or, with TLS, https:// and the address that is listened on]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_PUBLIC_URL", value_name = "URL", value_parser = base)]
    public_url: Option<String>,
    /// Seconds that a link may be valid for at most, up to 2592000 (30 days). The default is a week
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_LINK_SECONDS_MAX", value_name = "N", default_value_t = Settings::LIFE_SECONDS_MAX_DEFAULT, value_parser = clap::value_parser!(u64).range(LIFE_SECONDS_MIN..=LIFE_SECONDS_MAX))]
    link_seconds_max: u64,
    /// Requests a second that one interrupt takes over links in each name, and invalid links that may be tried from each
    /// address and from everywhere together; more get 429. 0 means no limit
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_LINK_RATE_LIMIT", value_name = "N", default_value_t = Settings::RATE_DEFAULT)]
    link_rate_limit: u32,
}

/// Complete but for the address, which is known when it is listened on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    public_url: Option<String>,
    life_ms_max: u64,
    rate_limit: Option<u32>,
}

impl LinkArgs {
    pub(super) fn settle(self) -> LinkSettings {
        LinkSettings {
            public_url: self.public_url,
            life_ms_max: self.link_seconds_max * 1000,
            rate_limit: (self.link_rate_limit > 0).then_some(self.link_rate_limit),
        }
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
fn base(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let odd = |c: char| !c.is_ascii_graphic() || "?#@\"<>\\".contains(c);
    if !fits || text.contains(odd) {
        return Err("must be like https://holdpoint.example.com or https://example.com/holdpoint".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::tests::load;

    fn settings(flags: &[&str]) -> Option<Settings> {
        load(flags).ok().map(|config| config.links.at("http://127.0.0.1:8484"))
    }

    #[test]
    fn links_lead_to_the_address_that_is_listened_on_unless_set() {
        let found = settings(&[]).unwrap();
        assert_eq!(found, Settings { public_url: "http://127.0.0.1:8484".to_owned(), ..Settings::default() });
    }

    #[test]
    fn a_public_url_is_one_that_a_path_can_follow() {
        let of = |url: &str| settings(&["--public-url", url]).map(|settings| settings.public_url);
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
        let life = |seconds| settings(&["--link-seconds-max", seconds]).map(|settings| settings.life_ms_max);
        assert_eq!((life("60"), life("2592000")), (Some(60_000), Some(Engine::LINK_LIFE_MS_MAX)));
        assert_eq!((life("59"), life("2592001")), (None, None));
        assert_eq!(settings(&["--link-rate-limit", "0"]).unwrap().rate_limit, None);
    }
}
