//! A database knows which key seals its secrets, and takes no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use holdpoint_engine::core::digest;
use holdpoint_engine::{Engine, Error, Location, Options, SealKey};

use crate::place::{Place, on_both};

on_both!(
    the_first_key_is_the_key_of_the_database,
    a_key_file_is_made_for_a_new_database_and_never_for_one_that_is_sealed,
    of_two_key_files_that_are_made_at_once_one_is_left,
);

async fn the_first_key_is_the_key_of_the_database(place: Place) {
    let (first, other) = (SealKey::fresh().unwrap(), SealKey::fresh().unwrap());
    let open = |key: SealKey| Engine::open(Options::new(place.location()).seal_key(key));
    open(first.clone()).await.unwrap().close().await;
    let refused = open(other.clone()).await.unwrap_err();
    assert!(matches!(refused, Error::WrongSealKey { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&first.name()) && text.contains(&other.name()), "{text}");
    open(first).await.unwrap().close().await;
}

/// The names of all files in a folder, each with the digest of its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let paths = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let content = |path| format!("{:x?}", std::fs::read(path).unwrap());
    paths.map(|path| (path.clone(), digest(&content(path).into()))).collect()
}

async fn a_key_file_is_made_for_a_new_database_and_never_for_one_that_is_sealed(place: Place) {
    let keys = tempfile::tempdir().unwrap();
    let path = keys.path().join("seal.key");
    let open = || Engine::open(Options::new(place.location()).seal_key_file(&path));
    let folder = match &place {
        Place::Sqlite(folder) => folder.path(),
        Place::Postgres(_) => keys.path(),
    };
    open().await.unwrap().close().await;
    let made = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let before = files(folder);
    let refused = open().await.unwrap_err();
    assert!(matches!(refused, Error::MissingSealKey { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("seal.key") && text.contains("restore"), "{text}");
    assert!(!path.exists() && files(folder) == before, "nothing was written");
    let other = SealKey::kept_in(&keys.path().join("other.key")).unwrap();
    std::fs::rename(keys.path().join("other.key"), &path).unwrap();
    let before = files(folder);
    let refused = open().await.unwrap_err();
    assert!(matches!(&refused, Error::WrongSealKey { given, .. } if *given == other.name()), "{refused}");
    assert_eq!(files(folder), before, "nothing was written");
    std::fs::write(&path, made).unwrap();
    open().await.unwrap().close().await;
}

async fn of_two_key_files_that_are_made_at_once_one_is_left(place: Place) {
    let Place::Postgres(_) = &place else { return };
    let keys = tempfile::tempdir().unwrap();
    let paths = ["a.key", "b.key"].map(|name| keys.path().join(name));
    let open = |path: &Path| Engine::open(Options::new(place.location()).seal_key_file(path));
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
    assert_ne!(a.is_ok(), b.is_ok(), "one of them sealed the database");
    for engine in [a, b].into_iter().flatten() {
        engine.close().await;
    }
}

#[tokio::test]
async fn a_database_that_was_not_closed_is_left_alone_when_its_key_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seal.key");
    let at = |folder: &Path| Location::Sqlite(folder.join("holdpoint.db"));
    let engine = Engine::open(Options::new(at(folder.path())).seal_key_file(&path)).await.unwrap();
    // A copy of the files is what a crash leaves behind.
    let left = tempfile::tempdir().unwrap();
    for file in files(folder.path()).keys().filter(|file| **file != path) {
        std::fs::copy(file, left.path().join(file.file_name().unwrap())).unwrap();
    }
    engine.close().await;
    let before = files(left.path());
    let options = Options::new(at(left.path())).seal_key_file(left.path().join("seal.key"));
    let refused = Engine::open(options).await.unwrap_err();
    assert!(matches!(refused, Error::MissingSealKey { .. }), "{refused}");
    assert_eq!(files(left.path()), before, "nothing was written");
}

#[tokio::test]
async fn a_file_has_its_key_beside_it_unless_one_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    Engine::open(Options::new(location.clone())).await.unwrap().close().await;
    let beside = folder.path().join("holdpoint.key");
    let key = SealKey::kept_in(&beside).unwrap();
    Engine::open(Options::new(location.clone()).seal_key(key)).await.unwrap().close().await;
    std::fs::remove_file(beside).unwrap();
    let refused = Engine::open(Options::new(location)).await.unwrap_err();
    assert!(
        matches!(refused, Error::MissingSealKey { .. }),
        "a lost key is not replaced in silence: {refused}"
    );
}
