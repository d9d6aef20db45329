//! The command line and the environment of the program. It inherits only the search path of this process.

use tokio::process::Command;

use super::super::{ProviderError, code};
use super::session_folder::{SessionFolder, folder_error};
use super::settings::ClaudeSettings;

/// Lets the program keep conversations for ten years. The handle determines their lifetime.
const OWN_SETTINGS: &str = r#"{"cleanupPeriodDays":3650}"#;

/// The session that the program works on.
pub(super) enum SessionMode<'a> {
    New(&'a str),
    Resumed(&'a str),
}

pub(super) async fn command(
    settings: &ClaudeSettings,
    folder: &SessionFolder,
    which: &SessionMode<'_>,
) -> Result<Command, ProviderError> {
    let mut command = Command::new(&settings.binary);
    command.args(["--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]);
    command.arg("--include-partial-messages");
    // The program must wait for the hook. Otherwise it could make a deferred call before the hook decides.
    command.args(["--await-initialize", "--permission-prompt-tool=stdio", "--permission-mode=default"]);
    command.args(["--setting-sources=", "--strict-mcp-config", "--settings", OWN_SETTINGS]);
    command.arg(format!("--tools={}", settings.tools.join(",")));
    // These settings are passed in files, because every user of the machine can read the arguments of a process.
    let servers = folder.write_file("mcp.json", settings.mcp_config().to_string().as_bytes());
    command.arg(joined("--mcp-config=", servers.map_err(|error| folder_error(&error))?));
    if let Some(text) = &settings.instructions {
        let file =
            folder.write_file("instructions.txt", text.as_bytes()).map_err(|error| folder_error(&error))?;
        command.arg(joined("--append-system-prompt-file=", file));
    }
    if let Some(model) = &settings.model {
        command.arg(format!("--model={model}"));
    }
    command.arg(match which {
        SessionMode::New(session) => format!("--session-id={session}"),
        SessionMode::Resumed(session) => format!("--resume={session}"),
    });
    command.current_dir(folder.work());
    environment(&mut command, settings, folder).await?;
    Ok(command)
}

async fn environment(
    command: &mut Command,
    settings: &ClaudeSettings,
    folder: &SessionFolder,
) -> Result<(), ProviderError> {
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("HOME", folder.home()).env("CLAUDE_CONFIG_DIR", folder.config());
    command.env("TMPDIR", folder.temp());
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command.env("CLAUDE_CODE_MAX_RETRIES", settings.max_retries().to_string());
    if let Some(url) = &settings.base_url {
        command.env("ANTHROPIC_BASE_URL", url);
    }
    if let Some(key) = &settings.api_key {
        let key = key.read().await.map_err(|why| {
            ProviderError::permanent(
                code::MISCONFIGURED,
                format!("apiKey: cannot read the key of the model API: {why}"),
            )
        })?;
        command.env("ANTHROPIC_API_KEY", key.expose());
    }
    Ok(())
}

fn joined(flag: &str, path: std::path::PathBuf) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(flag);
    argument.push(path);
    argument
}
