//! Attachments of messages in the format of each API, and the limits of their types and sizes.

use std::path::Path;
use std::sync::Arc;

use holdpoint_agents::model::{
    EndpointApi, EndpointModel, EndpointSettings, Model, ModelPrompt, from_definition,
};
use holdpoint_engine::core::agent::{Message, Role};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{FakeEndpoint, Turn, ask, local, prompt};

/// The beginnings of files of three media types.
const PNG: &str = "iVBORw0KGgoA";
const PDF: &str = "JVBERi0x";
const WAV: &str = "UklGRgAAAABXQVZF";

const APIS: [EndpointApi; 3] = [EndpointApi::ChatCompletions, EndpointApi::Responses, EndpointApi::Messages];

fn data(kind: &str, media_type: &str, value: &str) -> Value {
    json!({"type": kind, "source": {"type": "data", "value": value, "mimeType": media_type}})
}

fn address(kind: &str, url: &str) -> Value {
    json!({"type": kind, "source": {"type": "url", "value": url}})
}

fn with_content(contents: Vec<Value>) -> ModelPrompt {
    let messages = contents.into_iter().map(|content| Arc::new(Message::new("u1", Role::User, content)));
    ModelPrompt { messages: messages.collect(), ..prompt("") }
}

/// Returns the content of the first message as the API gets it. The endpoint rejects every request.
async fn sent(api: EndpointApi, contents: Vec<Value>) -> Value {
    let endpoint = FakeEndpoint::with([Turn::json(400, &json!({}))]).await;
    let model = EndpointModel::new(endpoint.settings_of(api), local()).unwrap();
    assert!(ask(&model, &with_content(contents)).await.0.is_err());
    let messages = if api == EndpointApi::Responses { "input" } else { "messages" };
    endpoint.body(0)[messages][0]["content"].clone()
}

fn model(api: EndpointApi, change: impl FnOnce(&mut EndpointSettings)) -> EndpointModel {
    let mut settings = EndpointSettings::new(api, "small", "http://127.0.0.1:1/v1");
    change(&mut settings);
    EndpointModel::new(settings, local()).unwrap()
}

#[test]
fn a_message_cannot_name_files_addresses_or_unknown_parts_by_default() {
    let table = [
        (json!({"type": "file", "file": {"file_id": "file-1"}}), "\"file\" is not accepted"),
        (json!({"type": "input_file", "file_id": "file-1"}), "\"input_file\" is not accepted"),
        (json!({"type": "tool_result", "tool_use_id": "c1", "content": "yes"}), "\"tool_result\" is not"),
        (json!({"type": "binary", "mimeType": "image/png", "id": "file-1"}), "neither data nor an address"),
        (json!({"type": "image", "source": {"type": "file", "value": "file-1"}}), "\"file\" is not accepted"),
        (address("image", "http://169.254.169.254/latest"), "an address is not accepted"),
        (json!({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}), "an address is not"),
        (json!({"type": "binary", "mimeType": "image/png", "url": "https://a.example"}), "an address is not"),
        (data("image", "image/tiff", "AAAA"), "the media type image/tiff is not accepted"),
        (data("image", "IMAGE/PNG", "AAAA"), "is not accepted"),
        (data("video", "video/mp4", "AAAA"), "the media type video/mp4 is not accepted"),
        (data("image", "image/png;x", "AAAA"), "is not accepted"),
        (data("image", "image/png", ""), "not valid base64"),
        (data("image", "image/png", "AA AA"), "not valid base64"),
        (data("image", "image/png", "AAAAA"), "not valid base64"),
        (data("image", "image/png", PDF), "the data is not of the media type image/png"),
        (data("document", "application/pdf", PNG), "the data is not of the media type application/pdf"),
        (data("image", "image/png", "AAAA\",\"x"), "not valid base64"),
        (json!({"type": "image", "source": {"type": "data", "value": "AAAA"}}), "the media type is missing"),
        (json!({"type": "image_url", "image_url": {"url": "data:,"}}), "not in base64"),
        (json!({"type": "image"}), "the part has no source"),
        (json!({"type": "text"}), "the part has no text"),
        (json!({}), "is not accepted"),
    ];
    for api in APIS {
        let model = model(api, |_| {});
        for (part, why) in &table {
            let error = model.check_content(&json!([{"type": "text", "text": "a"}, part])).unwrap_err();
            assert!(error.starts_with("content[1]: ") && error.contains(why), "{api:?} {part}: {error}");
        }
        assert_eq!(model.check_content(&json!("text")), Ok(()));
    }
    let audio =
        model(EndpointApi::Messages, |_| {}).check_content(&json!([data("audio", "audio/wav", "AAAA")]));
    assert!(audio.unwrap_err().contains("audio/wav is not accepted"));
}

#[test]
fn the_size_of_an_attachment_is_limited() {
    let model = model(EndpointApi::Messages, |settings| settings.attachments.bytes_max = 9);
    assert_eq!(model.check_content(&json!([data("image", "image/png", PNG)])), Ok(()));
    let large = format!("{PNG}AAAA");
    let error = model.check_content(&json!([data("image", "image/png", &large)])).unwrap_err();
    assert_eq!(error, "content[0]: the attachment has 12 bytes; the limit is 9");
}

#[tokio::test]
async fn attachments_are_sent_in_the_format_of_each_api() {
    let mut pdf = json!({"type": "binary", "mimeType": "application/pdf", "data": PDF, "filename": "a.pdf"});
    let content = json!([{"type": "text", "text": "See"}, data("image", "image/png", PNG), pdf]);
    let png_url = format!("data:image/png;base64,{PNG}");
    let pdf_url = format!("data:application/pdf;base64,{PDF}");
    let expected = [
        json!([
            {"type": "text", "text": "See"},
            {"type": "image_url", "image_url": {"url": png_url}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": pdf_url}},
        ]),
        json!([
            {"type": "input_text", "text": "See"},
            {"type": "input_image", "image_url": png_url},
            {"type": "input_file", "filename": "a.pdf", "file_data": pdf_url},
        ]),
        json!([
            {"type": "text", "text": "See"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
        ]),
    ];
    for (api, expected) in APIS.into_iter().zip(expected) {
        assert_eq!(sent(api, vec![content.clone()]).await, expected, "{api:?}");
    }
    pdf["filename"] = json!("a\nb.pdf");
    let unnamed = sent(EndpointApi::Responses, vec![json!([pdf])]).await;
    assert_eq!(unnamed[0]["filename"], "document.pdf");
    let audio = json!([data("audio", "audio/wav", WAV), data("audio", "audio/mpeg", "SUQz")]);
    let expected = json!([
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
    ]);
    assert_eq!(sent(EndpointApi::ChatCompletions, vec![audio]).await, expected);
    let texts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(sent(EndpointApi::ChatCompletions, vec![texts]).await, "a\nb");
}

#[tokio::test]
async fn an_operator_can_permit_addresses() {
    let url = "https://a.example/b";
    let content = json!([address("image", url), address("document", url)]);
    let left_out = "(An attachment was left out: an address is only accepted for an image.)";
    let expected = [
        json!([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": left_out}]),
        json!([{"type": "input_image", "image_url": url}, {"type": "input_file", "file_url": url}]),
        json!([
            {"type": "image", "source": {"type": "url", "url": url}},
            {"type": "document", "source": {"type": "url", "url": url}},
        ]),
    ];
    for (api, expected) in APIS.into_iter().zip(expected) {
        let endpoint = FakeEndpoint::with([Turn::json(400, &json!({}))]).await;
        let mut settings = endpoint.settings_of(api);
        settings.attachments.urls = true;
        let model = EndpointModel::new(settings, local()).unwrap();
        assert!(ask(&model, &with_content(vec![content.clone()])).await.0.is_err());
        let messages = if api == EndpointApi::Responses { "input" } else { "messages" };
        assert_eq!(endpoint.body(0)[messages][0]["content"], expected, "{api:?}");
        let local_file = model.check_content(&json!([address("image", "file:///etc/passwd")])).unwrap_err();
        assert!(local_file.contains("must begin with https://"), "{local_file}");
    }
}

#[tokio::test]
async fn a_text_replaces_an_attachment_that_is_not_sent() {
    let content = json!([{"type": "text", "text": "See"}, {"type": "file", "file": {"file_id": "file-1"}}]);
    let expected = "See\n(An attachment was left out: a part of the type \"file\" is not accepted.)";
    assert_eq!(sent(EndpointApi::ChatCompletions, vec![content]).await, expected);
    // The newest attachments are sent up to 16 MiB in all.
    let large = json!([data("image", "image/png", &format!("{PNG}{}", "A".repeat(1024 * 1024)))]);
    let contents = sent(EndpointApi::ChatCompletions, vec![large; 17]).await;
    assert_eq!(
        contents,
        "(An attachment was left out: the attachments after it reach the limit of a request.)"
    );
}

#[test]
fn the_rules_of_a_definition_can_only_restrict_types() {
    let parse = |attachments: Value| {
        let model = json!({"provider": "anthropic", "model": "m", "baseUrl": "https://a.example/v1", "attachments": attachments});
        from_definition(&model, Some(Path::new("/")), &local())
    };
    let png = parse(json!({"types": ["image/png"], "maxBytes": 9, "urls": false})).unwrap();
    assert_eq!(png.check_content(&json!([data("image", "image/png", PNG)])), Ok(()));
    assert!(png.check_content(&json!([data("image", "image/gif", "AAAA")])).is_err());
    let none = parse(json!({"types": []})).unwrap();
    let error = none.check_content(&json!([data("image", "image/png", PNG)])).unwrap_err();
    assert!(error.contains("accepted: none"), "{error}");
    for (attachments, field) in [
        (json!({"types": ["audio/wav"]}), "attachments.types"),
        (json!({"types": "image/png"}), "attachments.types"),
        (json!({"maxBytes": 0}), "attachments.maxBytes"),
        (json!({"maxSize": 1}), "attachments.maxSize"),
        (json!(true), "attachments"),
    ] {
        assert_eq!(parse(attachments).err().unwrap().field, field);
    }
}
