//! Whether a delivery is genuine: signed with the secret, over these very bytes, a moment ago. Asks no server.

use std::io::Read;

use clap::Args;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::values;
use crate::failure::Failure;
use crate::output::{Output, clean};
use holdpoint_core::hex;

pub(crate) const EXAMPLES: &str = "\
The body must be the exact bytes that were received: nothing parsed and written again. The secret is
taken from HOLDPOINT_WEBHOOK_SECRET or a file, so that no list of processes shows it.

Examples:
  HOLDPOINT_WEBHOOK_SECRET=… holdpoint webhooks verify --headers headers.txt < body.json
  holdpoint webhooks verify --secret-file secret --header 'X-openwop-Timestamp: 1767225600' \\
    --header 'X-openwop-Signature: sha256=…' < body.json
  holdpoint webhooks verify --headers headers.txt --at 2026-01-01T00:00:00Z < body.json";

const VARIABLE: &str = "HOLDPOINT_WEBHOOK_SECRET";
/// How far the clocks of both sides may be apart.
const WINDOW_SECONDS: i64 = 300;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A header of the delivery, as `Name: value`; repeat for more
    #[arg(long = "header", value_name = "LINE", value_parser = line)]
    header: Vec<(String, String)>,
    /// File with the headers, one a line
    #[arg(long, value_name = "FILE")]
    headers: Option<String>,
    /// File with the secret [default: the variable HOLDPOINT_WEBHOOK_SECRET]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    /// Judge the age as of this instant instead of now, for deliveries that were kept
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    at: Option<String>,
}

fn line(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_string()))
        }
        _ => Err("write it as Name: value".to_string()),
    }
}

pub(super) fn run(output: &Output, asked: &Verify) -> Result<(), Failure> {
    let secret = secret(asked.secret_file.as_deref())?;
    let mut headers = asked.header.clone();
    if let Some(path) = &asked.headers {
        // A request that was kept whole begins with its method, which is no header.
        headers.extend(values::read(path)?.lines().filter_map(|text| line(text).ok()));
    }
    let now = match &asked.at {
        Some(at) => at.parse().map_err(|_| Failure::usage("--at: this is no instant"))?,
        None => jiff::Timestamp::now(),
    };
    let mut body = Vec::new();
    std::io::stdin()
        .read_to_end(&mut body)
        .map_err(|error| Failure::usage(format!("cannot read the body: {error}")))?;
    let genuine = judge(&headers, &body, &secret, now.as_second()).map_err(Failure::refused)?;
    output.line(&match output.json {
        true => {
            json!({"genuine": true, "timestamp": genuine.seconds, "eventType": genuine.event}).to_string()
        }
        false => format!("genuine: {}, signed {} seconds ago", clean(&genuine.event), genuine.age),
    });
    Ok(())
}

fn secret(file: Option<&str>) -> Result<String, Failure> {
    let text = match file {
        Some(path) => values::read(path)?,
        None => std::env::var(VARIABLE).map_err(|_| {
            Failure::usage("there is no secret to check with")
                .hint(format!("set {VARIABLE}, or name a file with --secret-file"))
        })?,
    };
    let secret = text.trim();
    if secret.is_empty() {
        return Err(Failure::usage("the secret is empty"));
    }
    Ok(secret.to_string())
}

#[derive(Debug, PartialEq)]
pub(crate) struct Genuine {
    seconds: i64,
    age: i64,
    event: String,
}

/// What is wrong is said in the order in which a receiver should look.
pub(crate) fn judge(
    headers: &[(String, String)],
    body: &[u8],
    secret: &str,
    now: i64,
) -> Result<Genuine, String> {
    let find = |name: &str| {
        let names = [format!("x-openwop-{name}"), format!("openwop-{name}")];
        let found = names.iter().find_map(|name| headers.iter().find(|(given, _)| given == name));
        found.map(|(_, value)| value.as_str())
    };
    let algorithm = find("signature-algorithm").unwrap_or("v1");
    if algorithm != "v1" {
        return Err(format!("unknown algorithm: {}; this version knows v1", clean(algorithm)));
    }
    let text = find("timestamp").ok_or("there is no X-openwop-Timestamp")?;
    let seconds: i64 = text.parse().map_err(|_| "X-openwop-Timestamp is not a number of seconds")?;
    let signature = find("signature").ok_or("there is no X-openwop-Signature")?;
    let given = signature.strip_prefix("sha256=").ok_or("X-openwop-Signature does not begin with sha256=")?;
    // During the overlap of a rotation there is a second signature, with the new secret.
    let next = find("signature-next").and_then(|text| text.strip_prefix("sha256=")).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|error| error.to_string())?;
    mac.update(text.as_bytes());
    mac.update(b".");
    mac.update(body);
    let expected = hex(&mac.finalize().into_bytes());
    let matches = |given: &str| expected.as_bytes().ct_eq(given.to_ascii_lowercase().as_bytes());
    if !bool::from(matches(given) | matches(next)) {
        return Err(
            "bad signature: another secret, another timestamp, or not the bytes that were sent".to_string()
        );
    }
    let age = now.saturating_sub(seconds);
    if age.saturating_abs() > WINDOW_SECONDS {
        return Err(format!(
            "the signature is good, but the timestamp is {} seconds away from now; more than {WINDOW_SECONDS} may be a replay",
            age.saturating_abs()
        ));
    }
    Ok(Genuine { seconds, age, event: find("event-type").unwrap_or("an event").to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str]) -> Vec<(String, String)> {
        lines.iter().map(|text| line(text).unwrap()).collect()
    }

    // Worked out with `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key`.
    const SIGNATURE: &str = "a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";

    #[test]
    fn what_is_wrong_is_said() {
        let body = br#"{"a":1}"#;
        let stamp = "X-openwop-Timestamp: 1700000000";
        let signed = format!("X-openwop-Signature: sha256={SIGNATURE}");
        let judged =
            |lines: &[&str], body: &[u8], secret: &str, now: i64| judge(&headers(lines), body, secret, now);
        let good = Genuine { seconds: 1_700_000_000, age: 300, event: "an event".to_string() };
        assert_eq!(judged(&[stamp, &signed], body, "key", 1_700_000_300), Ok(good));
        let twins = ["OpenWOP-Timestamp:1700000000", &signed.replace("X-openwop", "OpenWOP")];
        assert!(judged(&twins, body, "key", 1_699_999_700).is_ok());
        let other = "X-openwop-Signature: sha256=00";
        let next = format!("X-openwop-Signature-Next: sha256={SIGNATURE}");
        assert!(judged(&[stamp, other, &next], body, "key", 1_700_000_000).is_ok(), "the new secret");
        let told = |lines: &[&str], body: &[u8], secret: &str, now: i64| {
            judged(lines, body, secret, now).unwrap_err()
        };
        let now = 1_700_000_000;
        assert!(told(&[stamp, &signed], b"{\"a\":2}", "key", now).contains("bad signature"));
        assert!(told(&[stamp, &signed], body, "yek", now).contains("bad signature"));
        assert!(
            told(&["X-openwop-Timestamp: 1700000001", &signed], body, "key", now).contains("bad signature")
        );
        assert!(told(&[stamp, &signed], body, "key", now + 301).contains("301 seconds"));
        assert!(told(&[stamp, &signed], body, "key", now - 301).contains("301 seconds"));
        let other = "X-openwop-Signature-Algorithm: v2";
        assert!(told(&[stamp, &signed, other], body, "key", now).contains("unknown algorithm: v2"));
        assert!(told(&[&signed], body, "key", now).contains("no X-openwop-Timestamp"));
        assert!(told(&[stamp], body, "key", now).contains("no X-openwop-Signature"));
        assert!(told(&["X-openwop-Timestamp: soon", &signed], body, "key", now).contains("not a number"));
        assert!(told(&[stamp, "X-openwop-Signature: v1=ab"], body, "key", now).contains("sha256="));
    }
}
