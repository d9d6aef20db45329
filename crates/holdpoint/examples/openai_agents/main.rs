//! A server with an additional provider: agents of the OpenAI Agents SDK, which `shim.py` serves over HTTP. It shows
//! how a provider is written outside of the crates of Holdpoint. Otherwise the server is the same as `holdpoint`:
//!
//! ```sh
//! SHIM_TOKEN=secret python shim.py state https://api.example.com/v1 sent    # prints its address
//! SHIM_URL=http://127.0.0.1:PORT SHIM_TOKEN=secret cargo run -p holdpoint --example openai_agents -- serve
//! ```
//!
//! The graph is `openai:publisher`. Its input is a text, `{"prompt": "…"}` or `{"messages": […]}`.

use std::process::ExitCode;

use holdpoint::engine::outgoing::{Error, Method, Outgoing, OutgoingPolicy, OutgoingRequest};
use holdpoint::engine::{OperatorApproval, Tenants};
use holdpoint_providers::{
    LockedHandle, Probe, Provider, ProviderAnswers, ProviderError, ProviderInterrupt, ProviderInterruptItem,
    ProviderOptions, ProviderOutcome, code,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Longer than the shim waits for an outcome.
const CALL_TIMEOUT_MS: u64 = 20_000;
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;

struct OpenAiAgents {
    outgoing: Outgoing,
    url: String,
    token: String,
    tenants: Tenants,
    approval: OperatorApproval,
}

/// A response of the shim.
struct ShimResponse {
    status: u16,
    body: Value,
}

impl OpenAiAgents {
    fn new(url: String, token: String) -> Self {
        // Without edits: the SDK approves or rejects a call as it is.
        let approval = OperatorApproval::try_from(json!({"editable": false}));
        Self {
            outgoing: Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() }),
            url,
            token,
            tenants: Tenants::default(),
            approval: approval.expect("the requirements are valid"),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ShimResponse, ProviderError> {
        let headers = vec![
            ("authorization".to_owned(), format!("Bearer {}", self.token)),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        let request = OutgoingRequest {
            method,
            url: format!("{}{path}", self.url),
            headers,
            body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            timeout_ms: CALL_TIMEOUT_MS,
            body_bytes_max: RESPONSE_BYTES_MAX,
        };
        // The text of the cause contains the address, so it is not part of the message.
        let response = self.outgoing.send(request).await.map_err(|error| match error {
            Error::Refused(_) => ProviderError::permanent(code::MISCONFIGURED, "the address is not allowed"),
            _ => ProviderError::transient(code::UNREACHABLE, "the agents cannot be reached"),
        })?;
        match response.status {
            401 => Err(ProviderError::permanent(code::AUTH, "the agents rejected the token")),
            409 => Err(ProviderError::transient(code::BUSY, "another attempt is active")),
            410 => Err(ProviderError::permanent(code::STATE_LOST, "the conversation is missing")),
            500..=599 => Err(ProviderError::transient(code::UNREACHABLE, "the agents failed to respond")),
            status => {
                Ok(ShimResponse { status, body: serde_json::from_slice(&response.body).unwrap_or_default() })
            }
        }
    }

    /// Sends an attempt and waits for its outcome. The shim executes an attempt once.
    async fn execute(&self, handle: &LockedHandle, request: Value) -> Result<ProviderOutcome, ProviderError> {
        let path = attempt_path(handle)?;
        let sent = self.call(Method::Put, &path, Some(&request)).await?;
        if sent.status != 200 {
            return Err(ProviderError::permanent(code::REJECTED, "the agents rejected the request"));
        }
        let mut state = sent.body;
        loop {
            if let Some(outcome) = settled_outcome(&state) {
                return outcome;
            }
            if Instant::now() >= handle.deadline() {
                self.cancel(handle).await?;
                return Err(ProviderError::permanent(code::TIMEOUT, "the agent exceeded its time limit"));
            }
            // Responds when the outcome is there, or after some seconds.
            state = self.call(Method::Get, &path, None).await?.body;
        }
    }
}

impl Provider for OpenAiAgents {
    fn name(&self) -> &str {
        "openai"
    }

    fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    fn approval(&self) -> Option<&OperatorApproval> {
        Some(&self.approval)
    }

    /// Returns the name of the conversation. It is stored before the first request, so that a retry uses the same one.
    fn plan(&self, _handle: &LockedHandle) -> Value {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system provides random numbers");
        json!(format!("{:032x}", u128::from_le_bytes(bytes)))
    }

    async fn start(&self, handle: &LockedHandle, input: &Value) -> Result<ProviderOutcome, ProviderError> {
        self.execute(handle, json!({"input": prompt(input)?})).await
    }

    async fn next_turn(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        let request = json!({"input": prompt(input)?, "continues": handle.has_executed()});
        self.execute(handle, request).await
    }

    async fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> Result<ProviderOutcome, ProviderError> {
        for answer in answers.values() {
            if !matches!(answer["decision"].as_str(), Some("approve" | "reject")) {
                let message = "answer: decision must be approve or reject";
                return Err(ProviderError::permanent(code::REJECTED, message));
            }
        }
        self.execute(handle, json!({"answers": answers})).await
    }

    async fn probe(&self, handle: &LockedHandle) -> Result<Probe, ProviderError> {
        let found = self.call(Method::Get, &attempt_path(handle)?, None).await?.body;
        match settled_outcome(&found) {
            Some(outcome) => outcome.map(Probe::Settled),
            None if found["state"] == "running" => Ok(Probe::Running),
            None => Ok(Probe::NotStarted),
        }
    }

    async fn cancel(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let Some(conversation) = conversation_path(handle) else { return Ok(()) };
        self.call(Method::Post, &format!("{conversation}/cancel"), None).await.map(|_| ())
    }

    async fn forget(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        let Some(conversation) = conversation_path(handle) else { return Ok(()) };
        self.call(Method::Delete, &conversation, None).await.map(|_| ())
    }
}

fn conversation_path(handle: &LockedHandle) -> Option<String> {
    Some(format!("/conversations/{}", handle.reference()?.as_str()?))
}

fn attempt_path(handle: &LockedHandle) -> Result<String, ProviderError> {
    let conversation = conversation_path(handle)
        .ok_or_else(|| ProviderError::permanent(code::STATE_LOST, "the stored state is missing"))?;
    // An attempt id contains slashes.
    Ok(format!("{conversation}/attempts/{}", handle.attempt().replace('/', ".")))
}

/// Returns the outcome of an attempt, or None if it has none.
fn settled_outcome(found: &Value) -> Option<Result<ProviderOutcome, ProviderError>> {
    let outcome = found.get("outcome")?;
    if let Some(error) = outcome.get("error") {
        let text = outcome["message"].as_str().unwrap_or_default();
        let message = format!("the agent failed: {text}");
        let code = if error == "crashed" { code::CRASHED } else { code::GRAPH };
        return Some(Err(ProviderError::permanent(code, message)));
    }
    if outcome.get("cancelled").is_some() {
        return Some(Ok(ProviderOutcome::Cancelled));
    }
    let Some(calls) = outcome["calls"].as_array() else {
        return Some(Ok(ProviderOutcome::Completed(outcome["output"].clone())));
    };
    let items = calls.iter().enumerate().map(|(at, call)| ProviderInterruptItem {
        key: format!("i{at}"),
        kind: "tool_approval".to_owned(),
        data: call.clone(),
        schema: None,
        call: None,
    });
    Some(Ok(ProviderOutcome::Interrupted(ProviderInterrupt { items: items.collect() })))
}

/// Returns the last message of the user.
fn prompt(input: &Value) -> Result<String, ProviderError> {
    let last = input["messages"].as_array().and_then(|messages| messages.last());
    let text = input.as_str().or_else(|| input["prompt"].as_str()).or_else(|| last?["content"].as_str());
    text.map(str::to_owned).ok_or_else(|| {
        let message =
            "input: must be a text, {\"prompt\": text} or {\"messages\": [{\"role\", \"content\"}]}";
        ProviderError::permanent(code::REJECTED, message)
    })
}

fn main() -> ExitCode {
    let setting = |name: &str| std::env::var(name).unwrap_or_default();
    let agents = OpenAiAgents::new(setting("SHIM_URL"), setting("SHIM_TOKEN"));
    holdpoint::main_with(|options| {
        options.provider("openai", agents).expect("no other provider has the kind openai")
    })
}
