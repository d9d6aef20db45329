//! An answer service of the operator's: what approvers want to know is sent to it, and what it says is recorded. Calls go
//! through the guarded client, like every other.

use std::borrow::Cow;
use std::fmt;

use anyhow::Context;
use holdpoint_api::interrupts::SideQuestion;
use holdpoint_core::limits;
use holdpoint_engine::outgoing::{Method, Outgoing, Request, Response};
use holdpoint_engine::{Answerer, Question, Unanswerable};
use serde_json::Value;

use crate::json::to_json;

/// Less than the engine waits, so that it is the service that is said to be slow.
const TIMEOUT_MS: u64 = 25_000;
/// An answer of the longest kind, every character of it escaped.
const BODY_BYTES_MAX: usize = 16 * limits::ASK_CHARS_MAX;

pub(crate) struct AnswerService {
    url: String,
    token: Option<String>,
    outgoing: Outgoing,
}

impl fmt::Debug for AnswerService {
    // Both may carry credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerService").finish_non_exhaustive()
    }
}

impl AnswerService {
    /// A URL that must not be called is found out at the start.
    pub(crate) fn new(url: &str, token: Option<&str>, outgoing: Outgoing) -> anyhow::Result<Self> {
        outgoing.check_url(url).context("--ask-url cannot be called")?;
        Ok(Self { url: url.to_owned(), token: token.map(str::to_owned), outgoing })
    }

    fn request(&self, question: &Question) -> Request {
        let json_type = "application/json".to_owned();
        let mut headers =
            vec![("content-type".to_owned(), json_type.clone()), ("accept".to_owned(), json_type)];
        // The same whenever the same is asked again.
        headers.push(("idempotency-key".to_owned(), format!("{}:ask:{}", question.interrupt, question.ask)));
        headers
            .extend(self.token.as_ref().map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
        Request {
            method: Method::Post,
            url: self.url.clone(),
            headers,
            body: to_json(&shown(question)).to_string().into_bytes(),
            timeout_ms: TIMEOUT_MS,
            body_bytes_max: BODY_BYTES_MAX,
        }
    }
}

impl Answerer for AnswerService {
    async fn answer(&self, question: &Question) -> Result<Option<String>, Unanswerable> {
        let response = self.outgoing.send(self.request(question)).await;
        read(&response.map_err(|error| Unanswerable(error.to_string()))?)
    }
}

fn shown(question: &Question) -> SideQuestion<'_> {
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

/// Nothing, where the service leaves the question to people.
fn read(response: &Response) -> Result<Option<String>, Unanswerable> {
    if response.status == 204 {
        return Ok(None);
    }
    if response.status != 200 {
        return Err(Unanswerable(format!("the answer service said {}", response.status)));
    }
    let body: Value = serde_json::from_slice(&response.body)
        .map_err(|_| Unanswerable("the answer service did not answer with JSON".to_owned()))?;
    match body.get("answer") {
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Null) => Ok(None),
        _ => Err(Unanswerable("the answer service answered without an answer".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> Result<Option<String>, Unanswerable> {
        read(&Response { status, headers: Vec::new(), body: body.as_bytes().to_vec() })
    }

    #[test]
    fn an_answer_is_a_text_and_nothing_else_is_taken_for_one() {
        assert_eq!(said(200, r#"{"answer": "So."}"#).unwrap().as_deref(), Some("So."));
        assert_eq!(said(204, "").unwrap(), None);
        assert_eq!(said(200, r#"{"answer": null}"#).unwrap(), None);
        for (status, body) in
            [(200, "So."), (200, "{}"), (200, r#"{"answer": 7}"#), (302, ""), (500, r#"{"answer": "x"}"#)]
        {
            assert!(said(status, body).is_err(), "{status} {body}");
        }
    }

    #[test]
    fn a_service_that_must_not_be_called_is_refused_at_the_start() {
        let outgoing = Outgoing::new(holdpoint_engine::outgoing::Policy::default());
        for wrong in ["http://example.com/", "https://10.0.0.1/", "ftp://example.com/", "example.com"] {
            assert!(AnswerService::new(wrong, None, outgoing.clone()).is_err(), "{wrong}");
        }
        let service =
            AnswerService::new("https://example.com/?key=hunter2", Some("hunter2"), outgoing).unwrap();
        assert!(!format!("{service:?}").contains("hunter2"));
    }
}
