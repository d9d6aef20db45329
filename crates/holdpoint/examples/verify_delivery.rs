//! The check of a webhook delivery by its receiver, as in docs/protocols/webhooks.md. Reads the body from standard input,
//! the secret from `SECRET` and headers from `name=value` arguments. The exit code is 0 if the delivery is genuine.

use std::collections::HashMap;
use std::io::Read;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Returns true if the signature matches. `raw_body` has the received bytes; names of headers are in lower case.
fn is_genuine(raw_body: &[u8], headers: &HashMap<String, String>, secret: &str, now: i64) -> bool {
    let header = |name: &str| headers.get(name).map(String::as_str);
    if header("x-openwop-signature-algorithm").unwrap_or("v1") != "v1" {
        return false;
    }
    let Some(timestamp) = header("x-openwop-timestamp") else { return false };
    if timestamp.parse::<i64>().map_or(true, |at| (now - at).abs() > 300) {
        return false;
    }
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(raw_body);
    // The second header exists during a rotation of the secret; it is signed with the new secret.
    ["x-openwop-signature", "x-openwop-signature-next"].iter().any(|name| {
        let given = header(name).and_then(|value| value.strip_prefix("sha256=")).unwrap_or("");
        let byte = |at: usize| given.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let given = (0..given.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
        given.is_some_and(|given| mac.clone().verify_slice(&given).is_ok())
    })
}

fn main() -> ExitCode {
    let pairs = std::env::args().skip(1);
    let headers =
        pairs.filter_map(|pair| pair.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()))).collect();
    let (mut body, secret) = (Vec::new(), std::env::var("SECRET").unwrap_or_default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let read = std::io::stdin().read_to_end(&mut body);
    if read.is_ok() && is_genuine(&body, &headers, &secret, now) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
