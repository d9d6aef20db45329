//! Generates the reference page of the command line from clap.

use clap::{Arg, Command};

use super::{GENERATED, cell, table};

pub(super) fn page(program: &Command) -> String {
    let mut program = program.clone();
    program.build();
    let mut page = format!(
        "{GENERATED}\n# Command line\n\nSettings of `holdpoint serve` are in [settings.md](settings.md). Every command has `--help`.\n"
    );
    describe(&program, "holdpoint", &mut page);
    page
}

fn describe(command: &Command, path: &str, page: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    *page += &format!("\n## {path}\n\n{}\n", sentence(&about));
    let usage = command.clone().render_usage().to_string();
    *page += &format!("\n```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim());
    let shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let rows: Vec<Vec<String>> = match path {
        "holdpoint serve" => Vec::new(),
        _ => command.get_arguments().filter(shown).map(argument).collect(),
    };
    if !rows.is_empty() {
        *page += &format!("\n{}", table(&["argument", "meaning"], rows));
    }
    if let Some(after) = command.get_after_help() {
        *page += &format!("\n```text\n{}\n```\n", after.to_string().trim_end());
    }
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    for below in below {
        describe(below, &format!("{path} {}", below.get_name()), page);
    }
}

fn argument(arg: &Arg) -> Vec<String> {
    let values = arg.get_value_names().filter(|_| arg.get_action().takes_values());
    let values = values.map(|names| names.join(" ")).unwrap_or_default();
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) => format!("-{short}, --{long} {values}"),
        (Some(long), None) => format!("--{long} {values}"),
        (None, Some(short)) => format!("-{short} {values}"),
        (None, None) => values,
    };
    let mut help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    if let Some(variable) = arg.get_env() {
        help += &format!(" (variable `{}`)", variable.to_string_lossy());
    }
    vec![format!("`{}`", name.trim_end().replace('|', "\\|")), cell(&help)]
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', ':']) { text.to_owned() } else { format!("{text}.") }
}
