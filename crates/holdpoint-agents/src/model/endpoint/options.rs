//! Further members of a request, which definitions and prompts set as options.

use serde_json::{Map, Value};

use super::super::ModelPrompt;
use super::api::EndpointApi;
use super::settings::EndpointSettings;

/// Returns true if an option of this name, as a definition spells it, is reserved.
pub(super) fn is_reserved(api: EndpointApi, name: &str) -> bool {
    api.reserved().contains(&snake(name).as_str())
}

/// Returns the options of a request. Options of the prompt override those of the settings. An option that is null is not
/// sent.
pub(super) fn merge(settings: &EndpointSettings, prompt: &ModelPrompt) -> Map<String, Value> {
    let all = settings.options.iter().chain(&prompt.options);
    let permitted = all.filter(|(name, _)| !is_reserved(settings.api, name));
    let mut merged: Map<_, _> = permitted.map(|(name, value)| (snake(name), value.clone())).collect();
    merged.retain(|_, value| !value.is_null());
    merged
}

/// Converts a name to snake case: `maxTokens` is `max_tokens` on the wire.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
