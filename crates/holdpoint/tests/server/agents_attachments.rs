//! Attachments of AG-UI messages reach each model API in its own format, and others end the run with the reason.

use serde_json::{Value, json};

use crate::agui::FrontEnd;
use crate::harness::Server;
use crate::receiver::{Receiver, Reply};

/// The beginning of a PNG image.
const PNG: &str = "iVBORw0KGgoA";

fn message(id: &str, media_type: &str) -> Value {
    let source = json!({"type": "data", "value": PNG, "mimeType": media_type});
    json!({"messages": [{"id": id, "role": "user", "content": [{"type": "image", "source": source}]}]})
}

#[test]
fn images_of_front_ends_reach_every_model_api_in_its_own_format() {
    // The endpoint rejects all requests: this test is about the requests.
    let endpoint = Receiver::with_reply(|_| Reply::Status(400));
    let folder = tempfile::tempdir().unwrap();
    let agents = folder.path().join("agents");
    std::fs::create_dir_all(&agents).unwrap();
    let url = format!("data:image/png;base64,{PNG}");
    let base64 = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    let table = [
        ("openai", "messages", json!([{"type": "image_url", "image_url": {"url": url}}])),
        ("openai-responses", "input", json!([{"type": "input_image", "image_url": url}])),
        ("anthropic", "messages", json!([{"type": "image", "source": base64}])),
    ];
    for (provider, ..) in &table {
        let model =
            json!({"provider": provider, "model": "small", "baseUrl": format!("{}/v1", endpoint.url)});
        let agent = json!({"agentId": provider, "model": model});
        std::fs::write(agents.join(format!("{provider}.json")), agent.to_string()).unwrap();
    }
    let flags = ["--agents", agents.to_str().unwrap()];
    let server = Server::start_in(&folder.path().join("data"), &flags);
    for (count, (provider, messages, content)) in table.into_iter().enumerate() {
        let front_end = FrontEnd::new(&server.client, provider, provider);
        let refused = front_end.post(message("u1", "image/tiff"));
        let error = refused.find("RUN_ERROR")[0];
        assert_eq!(error["code"], "attachment_not_accepted", "{error}");
        let text = error["message"].as_str().unwrap();
        assert!(text.contains("content[0]: the media type image/tiff is not accepted"), "{text}");
        assert_eq!(endpoint.requests().len(), count, "the model is not called");
        let sent = front_end.post(message("u2", "image/png"));
        assert_eq!(sent.find("RUN_ERROR")[0]["code"], "model_bad_request");
        let request = endpoint.requests().last().unwrap().json();
        let last = request[messages].as_array().unwrap().last().unwrap().clone();
        let parts = last["content"].as_array().unwrap();
        assert_eq!(parts[parts.len() - 1], content[0], "{provider}: {request}");
    }
}
