//! Seal keys: a database accepts only the key that it was created with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use holdpoint_engine::core::digest;
use holdpoint_engine::{Engine, Error, Location, Options, SealKey};

use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_database_accepts_only_its_first_seal_key,
    a_key_file_is_created_only_for_a_new_database,
    of_two_key_files_created_concurrently_one_remains,
);

async fn a_database_accepts_only_its_first_seal_key(database: TestDatabase) {
    let (first, other) = (SealKey::generate().unwrap(), SealKey::generate().unwrap());
    let open = |key: SealKey| Engine::open(Options::new(database.location()).manual_worker().seal_key(key));
    open(first.clone()).await.unwrap().close().await;
    let refused = open(other.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::WrongSealKey { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&first.name()) && text.contains(&other.name()), "{text}");
    open(first).await.unwrap().close().await;
}

/// The files of a folder with the digests of their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let paths = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let content = |path| format!("{:x?}", std::fs::read(path).unwrap());
    paths.map(|path| (path.clone(), digest(&content(path).into()))).collect()
}

async fn a_key_file_is_created_only_for_a_new_database(database: TestDatabase) {
    let keys = tempfile::tempdir().unwrap();
    let path = keys.path().join("seal.key");
    let open = || Engine::open(Options::new(database.location()).manual_worker().seal_key_file(&path));
    let folder = match &database {
        TestDatabase::Sqlite(folder) => folder.path(),
        TestDatabase::Postgres(_) => keys.path(),
    };
    open().await.unwrap().close().await;
    let made = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let before = files(folder);
    let refused = open().await.unwrap_err();
    assert!(matches!(refused, Error::MissingSealKey { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("seal.key") && text.contains("restore"), "{text}");
    assert!(!path.exists() && files(folder) == before, "the files are unchanged");
    let other = SealKey::load_or_create(&keys.path().join("other.key")).unwrap();
    std::fs::rename(keys.path().join("other.key"), &path).unwrap();
    let before = files(folder);
    let refused = open().await.unwrap_err();
    assert!(matches!(&refused, Error::WrongSealKey { given, .. } if *given == other.name()), "{refused}");
    assert_eq!(files(folder), before, "the files are unchanged");
    std::fs::write(&path, made).unwrap();
    open().await.unwrap().close().await;
}

async fn of_two_key_files_created_concurrently_one_remains(database: TestDatabase) {
    let TestDatabase::Postgres(_) = &database else { return };
    let keys = tempfile::tempdir().unwrap();
    let paths = ["a.key", "b.key"].map(|name| keys.path().join(name));
    let open =
        |path: &Path| Engine::open(Options::new(database.location()).manual_worker().seal_key_file(path));
    let (a, b) = tokio::join!(open(&paths[0]), open(&paths[1]));
    for opened in [&a, &b] {
        if let Err(refused) = opened {
            assert!(
                matches!(refused, Error::WrongSealKey { .. } | Error::MissingSealKey { .. }),
                "{refused}"
            );
        }
    }
    assert_eq!([a.is_ok(), b.is_ok()], paths.map(|path| path.exists()));
    assert_ne!(a.is_ok(), b.is_ok(), "exactly one engine sealed the database");
    for engine in [a, b].into_iter().flatten() {
        engine.close().await;
    }
}

#[tokio::test]
async fn an_unclosed_database_is_unchanged_when_its_key_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seal.key");
    let at = |folder: &Path| Location::Sqlite(folder.join("holdpoint.db"));
    let engine =
        Engine::open(Options::new(at(folder.path())).manual_worker().seal_key_file(&path)).await.unwrap();
    // A copy of the files is the state after a crash.
    let left = tempfile::tempdir().unwrap();
    for file in files(folder.path()).keys().filter(|file| **file != path) {
        std::fs::copy(file, left.path().join(file.file_name().unwrap())).unwrap();
    }
    engine.close().await;
    let before = files(left.path());
    let options = Options::new(at(left.path())).manual_worker().seal_key_file(left.path().join("seal.key"));
    let refused = Engine::open(options).await.unwrap_err();
    assert!(matches!(refused, Error::MissingSealKey { .. }), "{refused}");
    assert_eq!(files(left.path()), before, "the files are unchanged");
}

#[tokio::test]
async fn the_default_key_file_is_beside_the_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    Engine::open(Options::new(location.clone()).manual_worker()).await.unwrap().close().await;
    let beside = folder.path().join("holdpoint.key");
    let key = SealKey::load_or_create(&beside).unwrap();
    Engine::open(Options::new(location.clone()).manual_worker().seal_key(key)).await.unwrap().close().await;
    std::fs::remove_file(beside).unwrap();
    let refused = Engine::open(Options::new(location).manual_worker()).await.unwrap_err();
    assert!(matches!(refused, Error::MissingSealKey { .. }), "a lost key is not replaced: {refused}");
}
