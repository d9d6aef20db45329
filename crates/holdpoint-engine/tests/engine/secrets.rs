//! Secrets of signed links: one secret signs, and retired secrets verify until the last link has expired.

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::{Engine, Error, LinkSecret, LinkSecrets, OldLinks};

use crate::receipts::once;
use crate::test_database::on_both;
use crate::test_env::{NOON, TestEnv};

on_both! {
    of_concurrent_first_secrets_on_two_nodes_one_is_stored,
    one_secret_signs_and_the_others_are_retired,
    revoking_deletes_all_secrets_but_the_new_one,
    concurrent_rotations_on_two_nodes_leave_one_signing_secret,
    a_retired_secret_is_kept_a_day_longer_than_the_longest_link,
    a_rotation_with_an_idempotency_key_happens_once,
}

fn secret(kid: &str, at: i64) -> LinkSecret {
    LinkSecret {
        kid: kid.to_owned(),
        secret: format!("of {kid}"),
        created_at: Timestamp(at),
        retired_at: None,
    }
}

/// The ids of the signing secrets and of the retired secrets.
async fn kids(engine: &Engine) -> (Vec<String>, Vec<String>) {
    let (sign, rest): (Vec<_>, Vec<_>) =
        engine.secrets().list().await.unwrap().into_iter().partition(|one| one.retired_at.is_none());
    let names = |list: Vec<LinkSecret>| list.into_iter().map(|one| one.kid).collect();
    (names(sign), names(rest))
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

async fn of_concurrent_first_secrets_on_two_nodes_one_is_stored(env: TestEnv) {
    let other = env.second_engine(|options| options).await;
    let (a, b) = (secret("a", NOON), secret("b", NOON));
    let (one, two) = tokio::join!(env.engine.secrets().add(&a), other.secrets().add(&b));
    assert_ne!(one.unwrap(), two.unwrap(), "exactly one is stored");
    let stored = env.engine.secrets().list().await.unwrap();
    assert_eq!(stored, other.secrets().list().await.unwrap());
    assert!(stored == [a.clone()] || stored == [b.clone()]);
    assert!(!format!("{stored:?}").contains("of "), "a secret is not printed");
    other.close().await;
}

async fn one_secret_signs_and_the_others_are_retired(env: TestEnv) {
    assert!(env.engine.secrets().add(&secret("a", NOON)).await.unwrap());
    assert!(!env.engine.secrets().add(&secret("b", NOON)).await.unwrap());
    env.engine.secrets().rotate(&secret("c", NOON + 5), OldLinks::Keep, None).await.unwrap();
    let retired = LinkSecret { retired_at: Some(Timestamp(NOON + 5)), ..secret("a", NOON) };
    assert_eq!(env.engine.secrets().list().await.unwrap(), [retired, secret("c", NOON + 5)]);
    env.engine.secrets().rotate(&secret("d", NOON + 9), OldLinks::Keep, None).await.unwrap();
    let first = &env.engine.secrets().list().await.unwrap()[0];
    assert_eq!(first.retired_at, Some(Timestamp(NOON + 5)), "the retirement time does not change");
    assert_eq!(kids(&env.engine).await, (names(&["d"]), names(&["a", "c"])));
}

async fn revoking_deletes_all_secrets_but_the_new_one(env: TestEnv) {
    env.engine.secrets().rotate(&secret("a", NOON), OldLinks::Revoke, None).await.unwrap();
    env.engine.secrets().rotate(&secret("b", NOON + 1), OldLinks::Keep, None).await.unwrap();
    env.engine.secrets().rotate(&secret("c", NOON + 2), OldLinks::Revoke, None).await.unwrap();
    assert_eq!(kids(&env.engine).await, (names(&["c"]), names(&[])));
}

async fn concurrent_rotations_on_two_nodes_leave_one_signing_secret(env: TestEnv) {
    let other = env.second_engine(|options| options).await;
    let mut rotations = tokio::task::JoinSet::new();
    for n in 0..6 {
        let engine = if n % 2 == 0 { env.engine.clone() } else { other.clone() };
        rotations.spawn(async move {
            engine.secrets().rotate(&secret(&format!("s{n}"), NOON), OldLinks::Keep, None).await
        });
    }
    rotations.join_all().await.into_iter().for_each(|rotated| rotated.unwrap());
    let (sign, rest) = kids(&env.engine).await;
    assert_eq!((sign.len(), rest.len()), (1, 5));
    other.close().await;
}

async fn a_retired_secret_is_kept_a_day_longer_than_the_longest_link(env: TestEnv) {
    env.engine.secrets().rotate(&secret("a", NOON), OldLinks::Keep, None).await.unwrap();
    env.engine.secrets().rotate(&secret("b", NOON), OldLinks::Keep, None).await.unwrap();
    let kept = i64::try_from(LinkSecrets::LIFE_MS_MAX).unwrap() + 24 * 3_600_000;
    env.clock.advance(kept - 1);
    env.engine.worker().tidy().await;
    assert_eq!(kids(&env.engine).await, (names(&["b"]), names(&["a"])));
    env.clock.advance(1);
    env.engine.worker().tidy().await;
    assert_eq!(kids(&env.engine).await, (names(&["b"]), names(&[])), "the signing secret is kept");
}

async fn a_rotation_with_an_idempotency_key_happens_once(env: TestEnv) {
    let once = once("k", |secret: &LinkSecret| secret.kid.clone());
    env.engine.secrets().rotate(&secret("a", NOON), OldLinks::Keep, Some(&once)).await.unwrap();
    match env.engine.secrets().rotate(&secret("b", NOON), OldLinks::Keep, Some(&once)).await {
        Err(Error::Duplicate(receipt)) => assert_eq!(receipt.response, "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(kids(&env.engine).await, (names(&["a"]), names(&[])));
}
