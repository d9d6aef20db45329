//! The courier of webhooks: renders, signs and sends the request of one attempt.

use hmac::{Hmac, KeyInit, Mac};
use holdpoint_core::hex;
use holdpoint_engine::{AttemptClient, AttemptResult, DeliveryJob, DeliveryWorker, SigningSecrets};
use sha2::Sha256;

use super::render::{DeliveryContent, render};
use crate::app::App;

/// The user agent of deliveries.
const AGENT: &str = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));

/// Creates the worker that sends the deliveries of this process.
pub(crate) fn delivery_worker(app: &App) -> DeliveryWorker {
    let own = app.clone();
    app.engine.webhooks().delivery_worker(move |job, client| send(own.clone(), job, client))
}

/// Makes and sends the request of an attempt. Returns None if the event no longer exists.
async fn send(app: App, job: DeliveryJob, client: AttemptClient) -> Option<AttemptResult> {
    match render(&app, &job).await {
        Ok(Some(content)) => Some(client.post(headers(&job, &content), content.body).await),
        Ok(None) => None,
        Err(error) => Some(client.fail(&error.into_message())),
    }
}

/// Returns the headers. Each header of the protocol occurs with both prefixes, `X-openwop-` and `OpenWOP-`.
fn headers(job: &DeliveryJob, content: &DeliveryContent) -> Vec<(String, String)> {
    let mut ours = vec![("Event-Type", content.event_type.clone())];
    ours.extend(job.webhook.clone().map(|id| ("Webhook-Id", id)));
    if let Some(SigningSecrets { secret, next }) = &job.secrets {
        let timestamp = job.at.0.div_euclid(1000);
        let sign = |secret: &str| sign(secret, timestamp, &content.body);
        ours.extend([
            ("Timestamp", timestamp.to_string()),
            ("Signature", sign(secret)),
            ("Signature-Algorithm", "v1".to_owned()),
        ]);
        ours.extend(next.as_deref().map(|next| ("Signature-Next", sign(next))));
    }
    if let Some(key) = &job.dedup_key {
        ours.extend([("Delivery-Id", job.id.clone()), ("Dedup-Key", key.clone())]);
    }
    let both = |(name, value): (&str, String)| {
        [(format!("X-openwop-{name}"), value.clone()), (format!("OpenWOP-{name}"), value)]
    };
    let mut all = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    all.extend(content.trace.iter().cloned());
    all.push(("User-Agent".to_owned(), AGENT.to_owned()));
    all.extend(ours.into_iter().flat_map(both));
    all
}

/// Returns the value of the signature header: the HMAC of the timestamp and the bytes of the body. The key is the text
/// of the secret, not its decoded bytes.
fn sign(secret: &str, unix_seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{unix_seconds}.").as_bytes());
    mac.update(body);
    format!("sha256={}", hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{RunId, RunRef, TenantId, Timestamp};
    use holdpoint_engine::DeliveryKind;

    use super::*;

    #[test]
    fn each_header_of_the_protocol_has_both_prefixes() {
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse("r").unwrap() };
        let job = DeliveryJob {
            of,
            seq: 0,
            kind: DeliveryKind::Event,
            webhook: Some("wh-1".to_owned()),
            secrets: Some(SigningSecrets { secret: "one".to_owned(), next: Some("two".to_owned()) }),
            id: "d-1".to_owned(),
            dedup_key: Some("key-1".to_owned()),
            at: Timestamp(7999),
        };
        let content = DeliveryContent {
            event_type: "run.started".to_owned(),
            body: b"{}".to_vec(),
            trace: vec![("traceparent".to_owned(), "00-1".to_owned())],
        };
        let sent = headers(&job, &content);
        let value =
            |name: &str| sent.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("Event-Type", "run.started"),
            ("Webhook-Id", "wh-1"),
            ("Timestamp", "7"),
            ("Signature", &sign("one", 7, b"{}")),
            ("Signature-Next", &sign("two", 7, b"{}")),
            ("Signature-Algorithm", "v1"),
            ("Delivery-Id", "d-1"),
            ("Dedup-Key", "key-1"),
        ] {
            assert_eq!(value(&format!("X-openwop-{name}")), Some(expected));
            assert_eq!(value(&format!("OpenWOP-{name}")), Some(expected));
        }
        assert_eq!(value("Content-Type"), Some("application/json"));
        assert_eq!(value("traceparent"), Some("00-1"));
        assert_eq!(sent.len(), 19, "and the user agent");
        let bare = DeliveryJob { webhook: None, secrets: None, dedup_key: None, ..job };
        assert_eq!(headers(&bare, &content).len(), 5, "a callback without a secret");
    }

    #[test]
    fn a_signature_is_the_hmac_of_timestamp_and_body() {
        // Computed with `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key`.
        let expected = "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
        assert_eq!(sign("key", 1_700_000_000, br#"{"a":1}"#), expected);
        assert_ne!(sign("key", 1_700_000_001, br#"{"a":1}"#), expected);
        assert_ne!(sign("yek", 1_700_000_000, br#"{"a":1}"#), expected);
    }
}
