//! `holdpoint webhooks verify`: verifies the signature of a delivery. Needs no server.

use std::io::Read;

use clap::Args;
use holdpoint_client::webhook;
use serde::Serialize;

use super::values;
use crate::failure::Failure;
use crate::output::{Output, clean};

pub(crate) const EXAMPLES: &str = "\
The body must be the bytes as received, not parsed and serialized again. The secret is read from
HOLDPOINT_WEBHOOK_SECRET or a file, so that the list of processes does not show it.

Examples:
  HOLDPOINT_WEBHOOK_SECRET=… holdpoint webhooks verify --headers headers.txt < body.json
  holdpoint webhooks verify --secret-file secret --header 'X-openwop-Timestamp: 1767225600' \\
    --header 'X-openwop-Signature: sha256=…' < body.json
  holdpoint webhooks verify --headers headers.txt --at 2026-01-01T00:00:00Z < body.json";

const SECRET_VARIABLE: &str = "HOLDPOINT_WEBHOOK_SECRET";

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Header of the delivery, as `Name: value`; repeatable
    #[arg(long = "header", value_name = "LINE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// File with the headers, one per line
    #[arg(long, value_name = "FILE")]
    headers: Option<String>,
    /// File with the secret [default: the variable HOLDPOINT_WEBHOOK_SECRET]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    /// Check the age at this instant instead of now, for stored deliveries
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    at: Option<String>,
}

/// The output for scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VerifyReport<'a> {
    genuine: bool,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<&'a str>,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_string()))
        }
        _ => Err("must have the form Name: value".to_string()),
    }
}

pub(super) fn run(output: &Output, args: &VerifyArgs) -> Result<(), Failure> {
    let secret = read_secret(args.secret_file.as_deref())?;
    let mut headers = args.header.clone();
    if let Some(path) = &args.headers {
        // The first line of a stored request is its method and path, not a header.
        headers.extend(values::read(path)?.lines().filter_map(|text| parse_header(text).ok()));
    }
    let now = match &args.at {
        Some(at) => at.parse().map_err(|_| Failure::usage("--at: not an instant"))?,
        None => jiff::Timestamp::now(),
    };
    let mut body = Vec::new();
    std::io::stdin()
        .read_to_end(&mut body)
        .map_err(|error| Failure::usage(format!("cannot read the body: {error}")))?;
    let find = |name: &str| headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let signature = webhook::verify(&secret, find, &body, now.as_second())
        .map_err(|rejection| Failure::refused(clean(&rejection.to_string())))?;
    let event_type = signature.event_type.as_deref();
    if output.json {
        output.json_line(&VerifyReport { genuine: true, timestamp: signature.timestamp, event_type });
    } else {
        output.line(&format!(
            "genuine: {}, signed {} seconds ago",
            clean(event_type.unwrap_or("an event")),
            signature.age_seconds
        ));
    }
    Ok(())
}

fn read_secret(file: Option<&str>) -> Result<String, Failure> {
    let text = match file {
        Some(path) => values::read(path)?,
        None => std::env::var(SECRET_VARIABLE).map_err(|_| {
            Failure::usage("the secret is missing")
                .hint(format!("set {SECRET_VARIABLE}, or use --secret-file FILE"))
        })?,
    };
    match text.trim() {
        "" => Err(Failure::usage("the secret is empty")),
        secret => Ok(secret.to_owned()),
    }
}
