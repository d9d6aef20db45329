//! Files of the server are readable by its user alone, and its secrets are printed to terminals only.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Client, PROGRAM, clear_env};
use crate::server_start::shell;
use crate::sessions::Browser;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn folder_with_mode(parent: &Path, mode: u32) -> PathBuf {
    let folder = parent.join("data");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
    folder
}

#[test]
fn every_file_is_for_the_user_of_the_server_alone_under_any_umask() {
    let parent = tempfile::tempdir().unwrap();
    let data = folder_with_mode(parent.path(), 0o777);
    let line = format!("umask 000; exec {PROGRAM} serve --listen 127.0.0.1:0 --data {}", data.display());
    let mut command = Command::new("sh");
    clear_env(&mut command).args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.next().expect("the server prints that it is ready").unwrap();
    let left: Value = serde_json::from_slice(&fs::read(data.join("client.json")).unwrap()).unwrap();
    Client::new(ready.rsplit(' ').next().unwrap(), left["key"].as_str()).start_run("sample-approval");
    assert_eq!(mode(&data), 0o700);
    let names: Vec<PathBuf> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in [
        "holdpoint.db",
        "holdpoint.db-wal",
        "holdpoint.db-shm",
        "holdpoint.db.lock",
        "seal.key",
        "client.json",
    ] {
        assert!(names.contains(&data.join(name)), "{name}: {names:?}");
    }
    for path in names {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_folder_that_all_users_share_is_refused_as_data_folder() {
    let parent = tempfile::tempdir().unwrap();
    let data = folder_with_mode(parent.path(), 0o1777);
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("choose a separate folder with --data"), "{error}");
    assert_eq!((mode(&data), fs::read_dir(&data).unwrap().count()), (0o1777, 0), "the folder stays empty");
}

#[test]
fn the_first_key_and_the_sign_in_link_are_not_printed_to_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["serve", "--listen", "127.0.0.1:0"]).current_dir(folder.path());
    command.env("HOLDPOINT_LOG", "trace").stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let mut printed: Vec<String> = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        printed.push(line);
        if printed.last().is_some_and(|line| line.contains(" inbox --link")) {
            break;
        }
    }
    let left = fs::read(folder.path().join("holdpoint-data/client.json")).unwrap();
    let left: Value = serde_json::from_slice(&left).unwrap();
    let key = left["key"].as_str().unwrap();
    for text in [printed.join("\n"), fs::read_to_string(&log).unwrap()] {
        assert!(!text.contains(key) && !text.contains("#once="), "{text}");
    }
    assert!(
        printed.iter().any(|line| line.contains("API key") && line.contains("client.json")),
        "{printed:?}"
    );
    let link = shell(printed.last().unwrap(), folder.path());
    let (page, token) = link.trim().split_once("#once=").unwrap();
    let client = Client::new(page.strip_suffix("/inbox").unwrap(), None);
    let owner = Browser::sign_in(&client, &json!({"once": token})).unwrap();
    assert_eq!(owner.session["principal"], "owner");
    child.kill().unwrap();
    child.wait().unwrap();
}
