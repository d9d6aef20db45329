//! How the program is started: which flags, and which environment. Nothing of ours but the search path.

use tokio::process::Command;

use super::super::{Trouble, code};
use super::folder::{Folder, unusable};
use super::settings::Settings;

/// Conversations are kept for as long as handles live, and not for as long as the agent likes.
const OWN_SETTINGS: &str = r#"{"cleanupPeriodDays":3650}"#;

/// Which conversation.
pub(super) enum Which<'a> {
    Fresh(&'a str),
    Old(&'a str),
}

pub(super) async fn command(
    settings: &Settings,
    folder: &Folder,
    which: &Which<'_>,
) -> Result<Command, Trouble> {
    let mut command = Command::new(&settings.binary);
    command.args(["--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]);
    // Without waiting for us, a call that was put off could be made before we are asked.
    command.args(["--await-initialize", "--permission-prompt-tool=stdio", "--permission-mode=default"]);
    command.args(["--setting-sources=", "--strict-mcp-config", "--settings", OWN_SETTINGS]);
    command.arg(format!("--tools={}", settings.tools.join(",")));
    // In files and not in arguments, which everybody on the machine can read.
    let servers = folder.put("mcp.json", settings.mcp_config().to_string().as_bytes());
    command.arg(joined("--mcp-config=", servers.map_err(|error| unusable(&error))?));
    if let Some(text) = &settings.instructions {
        let file = folder.put("instructions.txt", text.as_bytes()).map_err(|error| unusable(&error))?;
        command.arg(joined("--append-system-prompt-file=", file));
    }
    if let Some(model) = &settings.model {
        command.arg(format!("--model={model}"));
    }
    command.arg(match which {
        Which::Fresh(session) => format!("--session-id={session}"),
        Which::Old(session) => format!("--resume={session}"),
    });
    command.current_dir(folder.work());
    environment(&mut command, settings, folder).await?;
    Ok(command)
}

async fn environment(command: &mut Command, settings: &Settings, folder: &Folder) -> Result<(), Trouble> {
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("HOME", folder.home()).env("CLAUDE_CONFIG_DIR", folder.config());
    command.env("TMPDIR", folder.scratch());
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command.env("CLAUDE_CODE_MAX_RETRIES", settings.max_retries().to_string());
    if let Some(url) = &settings.base_url {
        command.env("ANTHROPIC_BASE_URL", url);
    }
    if let Some(key) = &settings.api_key {
        let key = key.read().await.map_err(|why| {
            Trouble::lasting(code::MISCONFIGURED, format!("the key of the model's API cannot be used: {why}"))
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
