//! Tests of tokens: a token is accepted only in the exact form in which it was minted.

use super::*;

pub(super) fn secret(kid: &str, byte: u8) -> SigningSecret {
    SigningSecret::new(kid, [byte; SigningSecret::BYTES])
}

pub(super) fn claims(tenant: &str, node: &str) -> Claims {
    let run = RunId::parse("0199a0c1-7b1e-7a3c-9a55-2f1d8f1f0001").unwrap();
    Claims {
        interrupt: format!("{run}:i1"),
        of: RunRef { tenant: TenantId::parse(tenant).unwrap(), run },
        node: NodeId::parse(node).unwrap(),
        expires_at: Timestamp(1_800_000_000_123),
        intent: Intent::Resolve,
        sub: "alice".to_owned(),
        by: "desk".to_owned(),
        keys: Vec::new(),
    }
}

/// Signs exactly these bytes.
fn signed(secret: &SigningSecret, payload: &[u8]) -> String {
    let signature = mac(&secret.bytes, payload).finalize().into_bytes();
    format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn a_minted_token_is_verified_with_its_claims() {
    let secrets = [secret("old", 1), secret("new", 2)];
    let odd = Claims {
        sub: "zoë\"\\\u{7}😀".to_owned(),
        keys: vec!["key_1".to_owned()],
        intent: Intent::Inspect,
        ..claims("täglich", "a/b c:d")
    };
    for claims in [claims("default", "gate"), odd] {
        for secret in &secrets {
            let token = mint(secret, &claims).unwrap();
            assert_eq!(verify(&token, &secrets), Some(claims.clone()));
            assert!(
                token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
                "{token}"
            );
        }
    }
}

#[test]
fn the_payload_has_the_documented_form() {
    let token = mint(&secret("k1", 1), &claims("default", "gate")).unwrap();
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    assert_eq!(
        String::from_utf8(payload).unwrap(),
        r#"{"v":1,"kid":"k1","tenantId":"default","runId":"0199a0c1-7b1e-7a3c-9a55-2f1d8f1f0001","nodeId":"gate","#
            .to_owned()
            + r#""interruptId":"0199a0c1-7b1e-7a3c-9a55-2f1d8f1f0001:i1","expiresAt":"2027-01-15T08:00:00.123Z","#
            + r#""intent":"resolve","sub":"alice","by":"desk"}"#
    );
}

#[test]
fn a_token_with_a_changed_bit_or_character_is_rejected() {
    let secrets = [secret("k1", 1)];
    let token = mint(&secrets[0], &claims("default", "gate")).unwrap();
    // Characters of the base64url alphabet, and others.
    let alphabet = "ABCDwxyz0189-_.+/= \n%";
    for at in 0..token.len() {
        for bit in 0..8 {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(verify(&changed, &secrets), None, "bit {bit} of {at}");
        }
        for other in alphabet.chars().filter(|other| !token[at..].starts_with(*other)) {
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            assert_eq!(verify(&changed, &secrets), None, "{other:?} at {at}");
            let longer = format!("{}{other}{}", &token[..at], &token[at..]);
            assert_eq!(verify(&longer, &secrets), None, "{other:?} before {at}");
        }
        assert_eq!(verify(&token[..at], &secrets), None, "cut at {at}");
        assert_eq!(verify(&token[at + 1..], &secrets), None, "without the first {at} characters");
    }
    for other in alphabet.chars() {
        assert_eq!(verify(&format!("{token}{other}"), &secrets), None, "{other:?} at the end");
    }
}

#[test]
fn a_signed_payload_in_another_form_is_rejected() {
    let secrets = [secret("k1", 1)];
    let token = mint(&secrets[0], &claims("default", "gate")).unwrap();
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let payload = String::from_utf8(payload).unwrap();
    assert!(
        verify(&signed(&secrets[0], payload.as_bytes()), &secrets).is_some(),
        "the unchanged payload is accepted"
    );
    for (from, to) in [
        (r#"{"v":1,"#, r#"{ "v":1,"#),
        (r#"{"v":1,"#, r#"{"v":2,"#),
        (r#"{"v":1,"#, r#"{"v":1.0,"#),
        (r#"{"v":1,"#, r#"{"#),
        (r#"{"v":1,"kid":"k1""#, r#"{"kid":"k1","v":1"#),
        (r#""sub":"alice""#, r#""sub":"alice","sub":"alice""#),
        (r#""sub":"alice""#, r#""sub":"bob","sub":"alice""#),
        (r#""sub":"alice""#, r#""sub":"alice","admin":true"#),
        (r#""sub":"alice""#, r#""sub":"\u0061lice""#),
        (r#","sub":"alice""#, ""),
        (r#""intent":"resolve""#, r#""intent":"Resolve""#),
        (r#""intent":"resolve""#, r#""intent":"decide""#),
        ("00.123Z", "00.123000Z"),
        ("00.123Z", "00.123+00:00"),
        ("2027-01-15T08:00:00.123Z", "tomorrow"),
        ("}", "} "),
        ("}", "}{}"),
    ] {
        let other = payload.replacen(from, to, 1);
        assert_ne!(other, payload, "{from}");
        assert_eq!(verify(&signed(&secrets[0], other.as_bytes()), &secrets), None, "{other}");
    }
    for other in ["", "null", "[]", "{}", "1", "\u{feff}{}"] {
        assert_eq!(verify(&signed(&secrets[0], other.as_bytes()), &secrets), None, "{other}");
    }
}

#[test]
fn a_token_of_another_secret_is_rejected() {
    let claims = claims("default", "gate");
    let token = mint(&secret("k1", 1), &claims).unwrap();
    assert_eq!(verify(&token, &[]), None);
    assert_eq!(verify(&token, &[secret("k2", 1)]), None, "a token names its secret");
    assert_eq!(verify(&token, &[secret("k1", 2)]), None);
    let dummy = SigningSecret::new("none", DUMMY_KEY);
    assert_eq!(
        verify(&mint(&dummy, &claims).unwrap(), &[secret("k1", 1)]),
        None,
        "the dummy key is no secret"
    );
}

#[test]
fn a_signature_is_valid_for_one_payload_only() {
    let secrets = [secret("k1", 1), secret("k2", 2)];
    let base = claims("default", "gate");
    let others = [
        claims("other", "gate"),
        claims("default", "gate2"),
        Claims { intent: Intent::Inspect, ..base.clone() },
        Claims { sub: "bob".to_owned(), ..base.clone() },
        Claims { by: "bob".to_owned(), ..base.clone() },
        Claims { keys: vec!["key_1".to_owned()], ..base.clone() },
        Claims { interrupt: base.interrupt.replace(":i1", ":i2"), ..base.clone() },
        Claims { expires_at: Timestamp(base.expires_at.0 + 1), ..base.clone() },
    ];
    let ours = mint(&secrets[0], &base).unwrap();
    let (_, signature) = ours.split_once('.').unwrap();
    for (secret, other) in secrets.iter().flat_map(|secret| others.iter().map(move |other| (secret, other))) {
        let theirs = mint(secret, other).unwrap();
        let (payload, _) = theirs.split_once('.').unwrap();
        assert_eq!(verify(&format!("{payload}.{signature}"), &secrets), None, "{other:?}");
    }
}

#[test]
fn the_length_of_a_token_is_bounded() {
    let secrets = [secret("k1", 1)];
    let of = |length: usize| mint(&secrets[0], &claims("default", &"n".repeat(length)));
    assert_eq!(of(CHARS_MAX), None);
    let lengths: Vec<usize> = (1..CHARS_MAX).collect();
    let length = lengths.partition_point(|length| of(*length).is_some());
    let longest = of(length).unwrap();
    assert!(longest.len() > CHARS_MAX - 4 && verify(&longest, &secrets).is_some());
    let long = signed(&secrets[0], &bytes_of("k1", &claims("default", &"n".repeat(length + 4))));
    assert_eq!(verify(&long, &secrets), None, "signed, and too long");
    assert_eq!(verify(&"A".repeat(10_000_000), &secrets), None);
}

#[test]
fn a_secret_is_stored_as_text_and_hidden_in_debug_output() {
    let secret = secret("k1", 7);
    let text = secret.to_text();
    let again = SigningSecret::parse("k1", &text).unwrap();
    assert_eq!(again.bytes, secret.bytes);
    assert!(!format!("{secret:?}").contains('7'), "{secret:?}");
    for bad in ["", "AAAA", &text[1..], &format!("{text}A"), &format!("{text}=")] {
        assert!(SigningSecret::parse("k1", bad).is_none(), "{bad}");
    }
}

#[test]
fn links_that_earlier_versions_sent_to_callback_addresses_are_recognised() {
    let callback = Claims { by: "alice".to_owned(), ..claims("default", "gate") };
    assert!(callback.is_old_callback("alice"));
    assert!(!callback.is_old_callback("bob"), "of another run");
    assert!(!claims("default", "gate").is_old_callback("alice"), "made for another person");
    let new = Claims { keys: vec!["key_1".to_owned()], ..callback };
    assert!(!new.is_old_callback("alice"));
}
