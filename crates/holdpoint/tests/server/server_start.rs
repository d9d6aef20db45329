//! Start and stop of the server: first start, settings, workflow folder, SIGTERM.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::harness::{ANY_PORT, Client, KEY, PROGRAM, Server, accept, clear_env, gated};
use crate::sessions::Browser;

/// Runs a command line in a shell and returns its output.
pub(crate) fn shell(line: &str, folder: &std::path::Path) -> String {
    let mut command = Command::new("sh");
    let output = clear_env(&mut command).args(["-c", line]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Opens a pseudo-terminal. Returns the end to read from and the end that programs print to.
fn terminal() -> (File, File) {
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&shown).unwrap();
    unlockpt(&shown).unwrap();
    let name = ptsname(&shown, Vec::new()).unwrap();
    let printed = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(shown), File::from(printed))
}

#[test]
fn the_lines_printed_at_the_first_start_work_when_copied() {
    let folder = tempfile::tempdir().unwrap();
    let serve = || {
        let mut command = Command::new(PROGRAM);
        let command =
            clear_env(&mut command).args(["serve", "--listen", "127.0.0.1:0"]).current_dir(folder.path());
        let (reader, writer) = terminal();
        let child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        // The output of a start ends with a command to copy: first the sample, later the sign-in link.
        let mut printed: Vec<String> = Vec::new();
        for line in BufReader::new(reader).lines().map(Result::unwrap) {
            printed.push(line.trim_end().to_owned());
            if printed.last().is_some_and(|line| line.contains(" answer ") || line.contains(" inbox --link"))
            {
                break;
            }
        }
        (child, printed)
    };
    let (mut first, printed) = serve();
    let key = printed
        .iter()
        .find_map(|line| line.trim().strip_prefix("API key"))
        .expect("a key is shown")
        .trim()
        .to_owned();
    let inbox = |printed: &[String]| {
        let found = printed.iter().find_map(|line| line.trim().strip_prefix("inbox"));
        found.expect("the address of the inbox is printed").trim().to_owned()
    };
    let link = inbox(&printed);
    let (page, token) = link.split_once("#once=").expect("the first start has a link that signs in");
    let url = page.strip_suffix("/inbox").unwrap();
    let once = json!({"once": token});
    let owner = Browser::sign_in(&Client::new(url, None), &once).unwrap();
    assert_eq!(owner.session["principal"], "owner");
    // The quick start: a hold from the terminal, answered in the browser.
    let hold = shell(&format!("{PROGRAM} ask 'Deploy?' --detach"), folder.path());
    let hold = hold.trim();
    let cli = Client::new(url, Some(&key));
    cli.answer(hold, "hold", &accept()).assert_envelope(403, "forbidden");
    let path = format!("/v1/runs/{hold}/interrupts/hold");
    let accepted = json!({"resumeValue": accept()});
    let (status, shown) = owner.send("POST", &path, Some(&accepted), &[("x-holdpoint-page", "1")]);
    assert_eq!(status, 200, "{shown}");
    assert!(shell(&format!("{PROGRAM} wait {hold}"), folder.path()).contains("\"owner\""));
    let copied: Vec<&String> = printed.iter().filter(|line| line.starts_with("  /")).collect();
    assert_eq!(copied.len(), 3, "{printed:?}");
    shell(copied[0], folder.path());
    assert!(shell(copied[1], folder.path()).contains("Publish this text?"));
    first.kill().unwrap();
    first.wait().unwrap();

    let (mut second, printed) = serve();
    assert!(!printed.join("\n").contains("API key"), "a key is shown once: {printed:?}");
    assert!(inbox(&printed).ends_with("/inbox"), "the link is shown once: {printed:?}");
    let link_command =
        printed.iter().find(|line| line.starts_with("  /")).expect("the command for another link is printed");
    assert!(shell(link_command, folder.path()).contains("/inbox#once="), "{printed:?}");
    assert!(shell(copied[1], folder.path()).contains("Publish this text?"), "the run still waits");
    assert!(shell(copied[2], folder.path()).contains("completed"));
    let data = folder.path().join("holdpoint-data");
    let file = data.join("client.json");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&file)), (0o700, 0o600), "only the owner can read the files");
    let left: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(left["key"], json!(key));
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_first_start_that_fails_does_not_use_up_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = |listen: &str| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args(["serve", "--listen", listen]).current_dir(folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let failed = serve(&occupied.local_addr().unwrap().to_string()).wait_with_output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("--listen"), "{failed:?}");
    let mut second = serve("127.0.0.1:0");
    let lines = BufReader::new(second.stdout.take().unwrap()).lines().map(Result::unwrap);
    let printed: Vec<String> = lines.take(4).collect();
    assert!(printed.join("\n").contains("API key"), "{printed:?}");
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_second_server_on_the_same_data_is_refused_and_the_first_keeps_running() {
    let server = Server::start();
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(server.data());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("in use by another process"), "{error}");
    server.client.start_run("sample-approval");
}

#[test]
fn invalid_settings_end_the_start_with_an_explanation() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "listn = 1").unwrap();
    std::fs::create_dir(folder.path().join("flows")).unwrap();
    std::fs::write(folder.path().join("flows/broken.json"), "{\"id\": \"x\"}").unwrap();
    for level in ["very=loud=indeed", "warning"] {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).arg("serve").env(ANY_PORT.0, ANY_PORT.1).env("HOLDPOINT_LOG", level);
        let log = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(log.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&log.stderr).contains("HOLDPOINT_LOG"));
    }
    let table: [(&[&str], i32, &str); 10] = [
        (&["--bootstrap-key", "short"], 2, "at least 16 characters"),
        (&["--listen", "everywhere"], 2, "give an address and a port, such as"),
        (&["--database", "sqlite:nowhere/x.db"], 1, "nowhere/x.db"),
        (&["--database", "oracle:x"], 2, "must be sqlite:PATH"),
        (&["--config", "bad.toml"], 2, "listn"),
        (&["--config", "missing.toml"], 2, "cannot read missing.toml"),
        (&["--workflows", "flows", "--strict"], 1, "broken.json"),
        (&["--workflows", "nowhere"], 1, "cannot read --workflows nowhere"),
        (&["--rate-limit", "0"], 2, "rate-limit"),
        (&["--rate-burst", "5"], 2, "--rate-limit"),
    ];
    for (flags, code, message) in table {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command)
            .arg("serve")
            .args(flags)
            .env(ANY_PORT.0, ANY_PORT.1)
            .current_dir(folder.path());
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {error}");
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn a_folder_of_workflows_is_registered_at_every_start() {
    let folder = tempfile::tempdir().unwrap();
    let (flows, data) = (folder.path().join("flows"), folder.path().join("data"));
    std::fs::create_dir(&flows).unwrap();
    std::fs::write(flows.join("mine.json"), gated("mine").to_string()).unwrap();
    std::fs::write(flows.join("readme.txt"), "not a workflow").unwrap();
    for _ in 0..2 {
        let server = Server::start_in(&data, &["--workflows", flows.to_str().unwrap()]);
        let run = server.client.start_run("mine");
        assert_eq!(server.client.status(&run), "waiting-approval");
        let listed = server.client.get("/v1/workflows").body;
        let mine = listed["workflows"].as_array().unwrap().iter().find(|flow| flow["id"] == "mine").unwrap();
        assert_eq!(mine["revision"], 1, "an unchanged file creates no new revision");
    }
}

#[test]
fn an_invalid_workflow_file_is_logged_and_the_others_are_registered() {
    let folder = tempfile::tempdir().unwrap();
    let mut unknown = gated("conformance-unknown");
    unknown["nodes"][0]["typeId"] = json!("vendor.not-here");
    for (name, text) in [
        ("a.json", unknown.to_string()),
        ("b.json", gated("conformance-gated").to_string()),
        ("c.json", "{".to_owned()),
        ("d.json", gated("mine").to_string()),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let (server, log) = Server::start_logging(&["--workflows", folder.path().to_str().unwrap()], "info");
    server.client.start_run("conformance-gated");
    server.client.start_run("mine");
    let log = std::fs::read_to_string(log).unwrap();
    for words in ["a.json", "vendor.not-here", "c.json", "2 of 4 workflow files were not registered"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let found = server.client.with_key(None).get("/.well-known/openwop").body;
    assert_eq!(
        found["fixtures"],
        json!(["conformance-gated"]),
        "other workflows are not listed without a key"
    );
}

#[test]
fn a_bootstrap_key_of_the_other_kind_is_refused() {
    let server = Server::start();
    let data = server.data().to_owned();
    let mut server = server;
    server.kill();
    let mut command = Command::new(PROGRAM);
    let flags = ["serve", "--listen", "127.0.0.1:0", "--bootstrap-key", "hp_test_0123456789abcdef", "--data"];
    let output = clear_env(&mut command).args(flags).arg(data).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("has either test keys") && !error.contains("0123456789abcdef"), "{error}");
}

#[test]
fn sigterm_ends_streams_and_loses_no_data() {
    let mut server = Server::start();
    let run = server.client.start_run("sample-approval");
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "GET /v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n")
        .unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.contains("run.started") {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    shell(&format!("kill -TERM {}", server.pid()), std::path::Path::new("/"));
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream ends with the last chunk: {rest:?}");
    assert!(server.wait().success());
    let data = server.data().to_owned();
    let again = Server::start_in(&data, &[]);
    assert_eq!(again.client.answer(&run, "review", &accept()).status, 200);
}
