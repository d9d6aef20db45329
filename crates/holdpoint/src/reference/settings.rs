//! Generates the reference page of the settings: flag, variable, key of the file, default and meaning.

use clap::{Arg, Command};

use super::{GENERATED, cell, table};

const INTRODUCTION: &str = "\
# Settings

Settings of `holdpoint serve`. Flags win over variables, variables win over the file that `--config` names, and the file
wins over defaults. Times are a number and `s`, `m`, `h`, `d` or `w`. Lists of the file are arrays of strings. A flag without
a value is `true` or `false` in the file.
";

pub(super) fn page(program: &Command) -> String {
    let mut program = program.clone();
    program.build();
    let mut page = format!("{GENERATED}\n{INTRODUCTION}");
    let Some(serve) = program.find_subcommand("serve") else { return page };
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in settings(serve) {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        page += &format!("\n## {}\n\n", heading.unwrap_or("Server"));
        let rows = settings(serve).filter(|arg| arg.get_help_heading() == heading).map(describe);
        page += &table(&["flag", "variable", "in the file", "default", "meaning"], rows);
    }
    page
}

fn settings(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve.get_arguments().filter(|arg| arg.get_env().is_some())
}

fn describe(arg: &Arg) -> Vec<String> {
    let code = |text: &str| format!("`{text}`");
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
    let value = value.map(|names| format!(" {}", names.join(" "))).unwrap_or_default();
    let key = match arg.get_id().as_str() {
        "config" => String::new(),
        key => match key.strip_prefix("quota_") {
            Some(quota) => format!("`{quota}` in `[quotas]`"),
            None => code(key),
        },
    };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let (help, default) = match help.rsplit_once("[default: ") {
        Some((help, default)) => (help.to_owned(), default.trim_end_matches(']').to_owned()),
        None => {
            let defaults = arg.get_default_values().iter().map(|value| code(&value.to_string_lossy()));
            (help, defaults.filter(|_| arg.get_action().takes_values()).collect::<Vec<_>>().join(", "))
        }
    };
    let variable = arg.get_env().map(|name| code(&name.to_string_lossy())).unwrap_or_default();
    let flag = arg.get_long().map(|name| code(&format!("--{name}{value}"))).unwrap_or_default();
    vec![flag, variable, key, cell(&default), cell(&help)]
}
