//! Rule about ports: tests listen on port 0, so the system chooses a free port.

use crate::code::numbered;
use crate::tree::{File, Violation, assert_none, files};

#[test]
fn no_test_listens_on_a_fixed_port() {
    let mut files = files();
    files.retain(is_test);
    assert!(files.iter().any(|file| file.path.starts_with("clients/")), "has a folder moved?");
    assert_none(&files, |file| fixed_ports(&file.text));
}

/// Returns true for tests and for programs that tests start, except `tests/tidy`, which has samples that break the rule.
fn is_test(file: &File) -> bool {
    let tests = file.path.contains("/tests/") && !file.path.contains("/tests/tidy/");
    let script = file.path.starts_with("scripts/") || file.path.starts_with("clients/");
    let program = file.has_extension(&["rs", "py", "sh", "js", "mjs", "ts"]) || !file.path.contains('.');
    (tests || script) && program
}

/// Finds lines that listen on an address with a literal port other than 0.
fn fixed_ports(text: &str) -> Vec<Violation> {
    let listens =
        |line: &str| ["bind(", "listen(", "--listen", "--port"].iter().any(|word| line.contains(word));
    let message = "listens on a fixed port that another program may use: use port 0".to_owned();
    numbered(text)
        .filter(|(_, line)| listens(line) && has_fixed_port(line))
        .map(|(line, _)| (line, message.clone()))
        .collect()
}

/// Returns true if a port other than 0 follows an address or is the first argument.
fn has_fixed_port(line: &str) -> bool {
    let before = ["127.0.0.1:", "0.0.0.0:", "[::1]:", "[::]:", "localhost:"];
    let apart = [
        "127.0.0.1\", ",
        "0.0.0.0\", ",
        "localhost\", ",
        "server.listen(",
        "--port ",
        "--port=",
        "--port\", \"",
    ];
    let places = before
        .iter()
        .chain(&apart)
        .flat_map(|place| line.match_indices(place).map(|(at, found)| &line[at + found.len()..]));
    places.into_iter().any(|rest| rest.starts_with(|first: char| ('1'..='9').contains(&first)))
}

#[test]
fn a_fixed_port_is_found() {
    let fixed = [
        r#"TcpListener::bind("127.0.0.1:8484")"#,
        r#"TcpListener::bind(("127.0.0.1", 8484))"#,
        r#"command.args(["serve", "--listen", "0.0.0.0:9000"])"#,
        r#"server.listen(3000, "127.0.0.1")"#,
        "holdpoint serve --listen localhost:8484",
        "langgraph dev --port 2024",
    ];
    for line in fixed {
        assert_eq!(fixed_ports(line).len(), 1, "{line}");
    }
    let free = [
        r#"TcpListener::bind("127.0.0.1:0")"#,
        r#"TcpListener::bind(("127.0.0.1", port))"#,
        r#"(&["--listen", "everywhere"], 2, "such as an address")"#,
        r#"client.get("http://127.0.0.1:8484/")"#,
        "server.listen(0)",
    ];
    for line in free {
        assert!(fixed_ports(line).is_empty(), "{line}");
    }
}
