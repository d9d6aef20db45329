//! Keys: what is stored of them, and that a tenant is for tests or for real.

use holdpoint_engine::ApiKey;
use holdpoint_engine::core::{TenantId, Timestamp};

use crate::house::{House, NOON, gated, tenant};
use crate::place::on_both;

on_both! {
    a_key_is_kept_with_its_end_and_its_kind,
    the_first_key_decides_what_a_tenant_is_for,
    of_first_keys_of_both_kinds_one_is_stored,
    people_that_no_valid_key_has_are_unknown,
}

fn key(name: &str, tenant: &TenantId, test: bool) -> ApiKey {
    ApiKey {
        key_id: format!("key_{name}"),
        key_hash: format!("hash of {name}"),
        tenant: tenant.clone(),
        principal: name.to_owned(),
        roles: vec!["approver".to_owned()],
        groups: vec!["auditors".to_owned(), "board".to_owned()],
        scopes: vec!["runs:read".to_owned(), "runs:create".to_owned()],
        created_at: Timestamp(NOON),
        revoked_at: None,
        expires_at: None,
        test,
    }
}

async fn a_key_is_kept_with_its_end_and_its_kind(house: House) {
    let endless = key("a", &tenant(), false);
    let ending = ApiKey { expires_at: Some(Timestamp(NOON + 1)), ..key("b", &tenant(), false) };
    let lab = TenantId::parse("lab").unwrap();
    let test = key("c", &lab, true);
    for key in [&endless, &ending, &test] {
        assert!(house.engine.add_key(key).await.unwrap());
        assert!(!house.engine.add_key(key).await.unwrap(), "it is there already");
        assert_eq!(house.engine.key_by_hash(&key.key_hash).await.unwrap().as_ref(), Some(key));
    }
    assert_eq!(house.engine.keys(&tenant(), 10).await.unwrap(), [endless, ending]);
    assert_eq!(house.engine.keys(&lab, 10).await.unwrap(), [test]);
}

async fn the_first_key_decides_what_a_tenant_is_for(house: House) {
    house.register(gated("flow")).await;
    assert_eq!(house.engine.tenant_is_test(&tenant()).await.unwrap(), None, "a workflow decides nothing");
    assert!(house.engine.add_key(&key("a", &tenant(), true)).await.unwrap());
    assert_eq!(house.engine.tenant_is_test(&tenant()).await.unwrap(), Some(true));
    assert!(!house.engine.add_key(&key("b", &tenant(), false)).await.unwrap());
    assert_eq!(house.engine.key_by_hash("hash of b").await.unwrap(), None);
    assert!(house.engine.add_key(&key("c", &tenant(), true)).await.unwrap());
}

async fn of_first_keys_of_both_kinds_one_is_stored(house: House) {
    for round in 0..20 {
        let tenant = TenantId::parse(&format!("tenant-{round}")).unwrap();
        let (live, test) =
            (key(&format!("live-{round}"), &tenant, false), key(&format!("test-{round}"), &tenant, true));
        let (one, other) = tokio::join!(house.engine.add_key(&live), house.engine.add_key(&test));
        assert_ne!(one.unwrap(), other.unwrap(), "one of them, and only one");
        let kind = house.engine.tenant_is_test(&tenant).await.unwrap();
        let stored = house.engine.keys(&tenant, 10).await.unwrap();
        assert_eq!(stored.iter().map(|key| Some(key.test)).collect::<Vec<_>>(), [kind]);
    }
}

async fn people_that_no_valid_key_has_are_unknown(house: House) {
    let expired = ApiKey { expires_at: Some(Timestamp(NOON - 1)), ..key("old", &tenant(), false) };
    for key in [key("ann", &tenant(), false), key("gone", &tenant(), false), expired] {
        assert!(house.engine.add_key(&key).await.unwrap());
    }
    assert!(house.engine.revoke_key(&tenant(), "key_gone").await.unwrap());
    let known = ["ann", "approver", "board", "role:approver", "group:auditors", "scope:runs:read"];
    let unknown = ["gone", "old", "zoe", "role:ann", "group:approver", "scope:runs:cancel"];
    let entries: Vec<String> = known.iter().chain(&unknown).map(ToString::to_string).collect();
    assert_eq!(house.engine.unknown_people(&tenant(), &entries).await.unwrap(), unknown);
    let other = TenantId::parse("other").unwrap();
    assert_eq!(house.engine.unknown_people(&other, &entries).await.unwrap(), entries);
}
