//! Secrets of signed links: one signs, the others verify for as long as anything they have signed can be good.

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::{Engine, Error, LinkSecret};

use crate::house::{House, NOON};
use crate::place::on_both;
use crate::receipts::once;

on_both! {
    of_first_secrets_on_two_nodes_one_is_stored,
    one_secret_signs_and_the_others_are_retired,
    revoking_leaves_the_new_one_alone,
    of_rotations_at_once_on_two_nodes_all_happen_and_one_signs,
    a_retired_secret_stays_as_long_as_a_link_can_live_and_a_day,
    a_rotation_under_a_key_happens_once,
}

fn secret(kid: &str, at: i64) -> LinkSecret {
    LinkSecret {
        kid: kid.to_owned(),
        secret: format!("of {kid}"),
        created_at: Timestamp(at),
        retired_at: None,
    }
}

/// Names of those that sign, and of those that do not.
async fn kids(engine: &Engine) -> (Vec<String>, Vec<String>) {
    let (sign, rest): (Vec<_>, Vec<_>) =
        engine.secrets().await.unwrap().into_iter().partition(|one| one.retired_at.is_none());
    let names = |list: Vec<LinkSecret>| list.into_iter().map(|one| one.kid).collect();
    (names(sign), names(rest))
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

async fn of_first_secrets_on_two_nodes_one_is_stored(house: House) {
    let other = house.second_engine(|options| options).await;
    let (a, b) = (secret("a", NOON), secret("b", NOON));
    let (one, two) = tokio::join!(house.engine.add_secret(&a), other.add_secret(&b));
    assert_ne!(one.unwrap(), two.unwrap(), "one of them, and only one");
    let stored = house.engine.secrets().await.unwrap();
    assert_eq!(stored, other.secrets().await.unwrap());
    assert!(stored == [a.clone()] || stored == [b.clone()]);
    assert!(!format!("{stored:?}").contains("of "), "a secret is not printed");
    other.close().await;
}

async fn one_secret_signs_and_the_others_are_retired(house: House) {
    assert!(house.engine.add_secret(&secret("a", NOON)).await.unwrap());
    assert!(!house.engine.add_secret(&secret("b", NOON)).await.unwrap());
    house.engine.rotate_secrets(&secret("c", NOON + 5), false, None).await.unwrap();
    let retired = LinkSecret { retired_at: Some(Timestamp(NOON + 5)), ..secret("a", NOON) };
    assert_eq!(house.engine.secrets().await.unwrap(), [retired, secret("c", NOON + 5)]);
    house.engine.rotate_secrets(&secret("d", NOON + 9), false, None).await.unwrap();
    let first = &house.engine.secrets().await.unwrap()[0];
    assert_eq!(first.retired_at, Some(Timestamp(NOON + 5)), "what is retired is not retired again");
    assert_eq!(kids(&house.engine).await, (names(&["d"]), names(&["a", "c"])));
}

async fn revoking_leaves_the_new_one_alone(house: House) {
    house.engine.rotate_secrets(&secret("a", NOON), true, None).await.unwrap();
    house.engine.rotate_secrets(&secret("b", NOON + 1), false, None).await.unwrap();
    house.engine.rotate_secrets(&secret("c", NOON + 2), true, None).await.unwrap();
    assert_eq!(kids(&house.engine).await, (names(&["c"]), names(&[])));
}

async fn of_rotations_at_once_on_two_nodes_all_happen_and_one_signs(house: House) {
    let other = house.second_engine(|options| options).await;
    let mut rotations = tokio::task::JoinSet::new();
    for n in 0..6 {
        let engine = if n % 2 == 0 { house.engine.clone() } else { other.clone() };
        rotations
            .spawn(async move { engine.rotate_secrets(&secret(&format!("s{n}"), NOON), false, None).await });
    }
    rotations.join_all().await.into_iter().for_each(|rotated| rotated.unwrap());
    let (sign, rest) = kids(&house.engine).await;
    assert_eq!((sign.len(), rest.len()), (1, 5));
    other.close().await;
}

async fn a_retired_secret_stays_as_long_as_a_link_can_live_and_a_day(house: House) {
    house.engine.rotate_secrets(&secret("a", NOON), false, None).await.unwrap();
    house.engine.rotate_secrets(&secret("b", NOON), false, None).await.unwrap();
    let kept = i64::try_from(Engine::LINK_LIFE_MS_MAX).unwrap() + 24 * 3_600_000;
    house.clock.advance(kept - 1);
    house.engine.worker().tidy().await;
    assert_eq!(kids(&house.engine).await, (names(&["b"]), names(&["a"])));
    house.clock.advance(1);
    house.engine.worker().tidy().await;
    assert_eq!(kids(&house.engine).await, (names(&["b"]), names(&[])), "what signs is never too old");
}

async fn a_rotation_under_a_key_happens_once(house: House) {
    let once = once("k", |secret: &LinkSecret| secret.kid.clone());
    house.engine.rotate_secrets(&secret("a", NOON), false, Some(&once)).await.unwrap();
    match house.engine.rotate_secrets(&secret("b", NOON), false, Some(&once)).await {
        Err(Error::Duplicate(receipt)) => assert_eq!(receipt.response, "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(kids(&house.engine).await, (names(&["a"]), names(&[])));
}
