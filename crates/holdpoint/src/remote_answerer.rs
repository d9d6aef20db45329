//! The operator's answer service: the server sends the side questions of approvers to it and records its answers. The
//! outgoing policy applies to these calls.

use std::borrow::Cow;
use std::fmt;

use anyhow::Context;
use holdpoint_api::interrupts::SideQuestion;
use holdpoint_core::limits;
use holdpoint_engine::outgoing::{Method, Outgoing, OutgoingRequest, OutgoingResponse};
use holdpoint_engine::{Answerer, AnswererError, ApproverQuestion};
use serde_json::Value;

use crate::json::to_json;

/// The timeout of a call. It is shorter than that of the engine, so that the error names the service.
const TIMEOUT_MS: u64 = 25_000;
/// The maximum size of a response: enough for the longest answer with every character escaped.
const BODY_BYTES_MAX: usize = 16 * limits::ASK_CHARS_MAX;

pub(crate) struct AnswerService {
    url: String,
    token: Option<String>,
    outgoing: Outgoing,
}

impl fmt::Debug for AnswerService {
    // Omits the URL and the token, which may contain credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerService").finish_non_exhaustive()
    }
}

impl AnswerService {
    /// Returns an error if the outgoing policy rejects the URL.
    pub(crate) fn new(url: &str, token: Option<&str>, outgoing: Outgoing) -> anyhow::Result<Self> {
        outgoing.check_url(url).context("--ask-url cannot be called")?;
        Ok(Self { url: url.to_owned(), token: token.map(str::to_owned), outgoing })
    }

    fn request(&self, question: &ApproverQuestion) -> OutgoingRequest {
        let json_type = "application/json".to_owned();
        let mut headers =
            vec![("content-type".to_owned(), json_type.clone()), ("accept".to_owned(), json_type)];
        // Repeated calls for the same side question have the same key.
        headers.push(("idempotency-key".to_owned(), format!("{}:ask:{}", question.interrupt, question.ask)));
        headers
            .extend(self.token.as_ref().map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
        OutgoingRequest {
            method: Method::Post,
            url: self.url.clone(),
            headers,
            body: to_json(&describe(question)).to_string().into_bytes(),
            timeout_ms: TIMEOUT_MS,
            body_bytes_max: BODY_BYTES_MAX,
        }
    }
}

impl Answerer for AnswerService {
    async fn answer(&self, question: &ApproverQuestion) -> Result<Option<String>, AnswererError> {
        let response = self.outgoing.send(self.request(question)).await;
        parse_response(&response.map_err(|error| AnswererError(error.to_string()))?)
    }
}

fn describe(question: &ApproverQuestion) -> SideQuestion<'_> {
    SideQuestion {
        tenant_id: question.of.tenant.clone(),
        run_id: question.of.run.clone(),
        workflow_id: question.workflow.clone(),
        node_id: question.node.clone(),
        interrupt_id: Cow::Borrowed(&question.interrupt),
        ask_id: question.ask,
        question: Cow::Borrowed(&question.text),
        asked_by: Cow::Borrowed(&question.asked_by),
        asked_at: question.asked_at.into(),
        data: Cow::Borrowed(&question.data),
    }
}

/// Returns the answer, or None if the service leaves the question to people.
fn parse_response(response: &OutgoingResponse) -> Result<Option<String>, AnswererError> {
    if response.status == 204 {
        return Ok(None);
    }
    if response.status != 200 {
        return Err(AnswererError(format!("the answer service responded with status {}", response.status)));
    }
    let body: Value = serde_json::from_slice(&response.body)
        .map_err(|_| AnswererError("the answer service did not respond with JSON".to_owned()))?;
    match body.get("answer") {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Null) => Ok(None),
        _ => Err(AnswererError("the response of the answer service has no \"answer\"".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(status: u16, body: &str) -> Result<Option<String>, AnswererError> {
        parse_response(&OutgoingResponse { status, headers: Vec::new(), body: body.as_bytes().to_vec() })
    }

    #[test]
    fn only_a_text_is_accepted_as_an_answer() {
        assert_eq!(parse(200, r#"{"answer": "So."}"#).unwrap().as_deref(), Some("So."));
        assert_eq!(parse(204, "").unwrap(), None);
        assert_eq!(parse(200, r#"{"answer": null}"#).unwrap(), None);
        for (status, body) in
            [(200, "So."), (200, "{}"), (200, r#"{"answer": 7}"#), (302, ""), (500, r#"{"answer": "x"}"#)]
        {
            assert!(parse(status, body).is_err(), "{status} {body}");
        }
    }

    #[test]
    fn a_url_that_the_policy_rejects_is_an_error_at_the_start() {
        let outgoing = Outgoing::new(holdpoint_engine::outgoing::OutgoingPolicy::default());
        for wrong in ["http://example.com/", "https://10.0.0.1/", "ftp://example.com/", "example.com"] {
            assert!(AnswerService::new(wrong, None, outgoing.clone()).is_err(), "{wrong}");
        }
        let service =
            AnswerService::new("https://example.com/?key=hunter2", Some("hunter2"), outgoing).unwrap();
        assert!(!format!("{service:?}").contains("hunter2"));
    }
}
