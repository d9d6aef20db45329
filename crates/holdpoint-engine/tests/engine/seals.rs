//! A database knows which key seals its secrets, and takes no other.

use holdpoint_engine::{Engine, Error, Location, Options, SealKey};

use crate::place::{Place, on_both};

on_both!(the_first_key_is_the_key_of_the_database);

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
        matches!(refused, Error::WrongSealKey { .. }),
        "a lost key is not replaced in silence: {refused}"
    );
}
