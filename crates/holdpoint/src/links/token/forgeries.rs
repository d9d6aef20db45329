//! Random, edited and spliced tokens: only minted tokens are accepted, and no text makes the parser panic. The cases
//! are the same on every run; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` choose others.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::tests::{claims, secret};
use super::*;

const CASES: u32 = 1024;

/// An edit of the text of a token, or of the bytes inside it.
#[derive(Clone, Debug)]
enum Edit {
    Flip(usize, u8),
    Put(usize, char),
    Drop(usize),
    Repeat(usize, usize),
    Cut(usize),
    Swap(usize, usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = || 0..600_usize;
    let odd = prop_oneof![Just('.'), Just('='), Just('-'), Just('_'), Just('+'), Just('/'), any::<char>()];
    let edit = prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (at(), odd).prop_map(|(at, what)| Edit::Put(at, what)),
        at().prop_map(Edit::Drop),
        (at(), 1..40_usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
        at().prop_map(Edit::Cut),
        (at(), at()).prop_map(|(one, other)| Edit::Swap(one, other)),
    ];
    prop::collection::vec(edit, 0..4)
}

/// Generates texts of any characters. A pattern would be slower.
fn text(length_max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..length_max).prop_map(String::from_iter)
}

fn apply_edits(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits {
        let length = bytes.len().max(1);
        match edit {
            _ if bytes.is_empty() => break,
            Edit::Flip(at, bit) => bytes[at % length] ^= 1 << bit,
            Edit::Put(at, what) => {
                let at = at % length;
                bytes.splice(at..at, what.to_string().into_bytes());
            }
            Edit::Drop(at) => drop(bytes.remove(at % length)),
            Edit::Repeat(at, many) => {
                let from = at % length;
                let piece = bytes[from..(from + many).min(length)].to_vec();
                bytes.splice(from..from, piece);
            }
            Edit::Cut(at) => bytes.truncate(at % length),
            Edit::Swap(one, other) => bytes.swap(one % length, other % length),
        }
    }
    bytes
}

fn secrets() -> [SigningSecret; 2] {
    [secret("old", 1), secret("new", 2)]
}

/// Returns all tokens that these tests mint.
fn minted() -> &'static [String] {
    static MINTED: LazyLock<Vec<String>> = LazyLock::new(mint_all);
    &MINTED
}

fn mint_all() -> Vec<String> {
    let [old, new] = secrets();
    let base = claims("default", "gate");
    let inspect = Claims { intent: Intent::Inspect, ..base.clone() };
    let later = Claims { interrupt: base.interrupt.replace(":i1", ":i2"), ..base.clone() };
    let all = [base, inspect, later, claims("other", "gate")];
    [&old, &new].iter().flat_map(|secret| all.iter().map(|claims| mint(secret, claims).unwrap())).collect()
}

fn is_accepted(text: &str) -> bool {
    verify(text, &secrets()).is_some()
}

fn config() -> ProptestConfig {
    let from_environment = ProptestConfig::default();
    let set = |name: &str| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if set("PROPTEST_CASES") { from_environment.cases } else { CASES },
        rng_seed: if set("PROPTEST_RNG_SEED") { from_environment.rng_seed } else { RngSeed::Fixed(5) },
        failure_persistence: None,
        ..from_environment
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_text_is_rejected(text in text(400), ascii in "[A-Za-z0-9_.=-]{0,400}") {
        prop_assert!(!is_accepted(&text));
        prop_assert!(!is_accepted(&ascii));
    }

    #[test]
    fn random_payloads_are_rejected(payload in any::<Vec<u8>>(), signature in any::<[u8; 32]>()) {
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(signature));
        prop_assert!(!is_accepted(&text));
    }

    #[test]
    fn an_edited_token_is_rejected_unless_it_equals_a_minted_one(which in 0..8_usize, edits in edits()) {
        let minted = minted();
        let text = apply_edits(minted[which].as_bytes(), &edits);
        let text = String::from_utf8_lossy(&text);
        prop_assert_eq!(is_accepted(&text), minted.iter().any(|token| *token == text), "{}", text);
    }

    #[test]
    fn an_edited_payload_does_not_match_the_signature(
        which in 0..8_usize,
        other in 0..8_usize,
        of_payload in edits(),
        of_signature in edits(),
    ) {
        let minted = minted();
        let decoded = |token: &str, part: usize| {
            URL_SAFE_NO_PAD.decode(token.split('.').nth(part).unwrap()).unwrap()
        };
        let payload = apply_edits(&decoded(&minted[which], 0), &of_payload);
        let signature = apply_edits(&decoded(&minted[other], 1), &of_signature);
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(signature));
        prop_assert_eq!(is_accepted(&text), minted.contains(&text), "{}", text);
    }

    #[test]
    fn a_token_of_an_unknown_secret_is_rejected(byte in 3..255_u8, kid in "old|new|[a-z]{0,8}", sub in text(20)) {
        let claims = Claims { sub, ..claims("default", "gate") };
        prop_assert!(!is_accepted(&mint(&secret(&kid, byte), &claims).unwrap()));
    }

    /// The opposite direction: every minted token is accepted with its claims.
    #[test]
    fn a_minted_token_is_accepted_with_its_claims(
        tenant in "[ -~äß漢😀]{1,40}",
        node in "[ -~äß漢😀]{1,40}",
        sub in text(40),
        ms in 0..4_000_000_000_000_i64,
        inspect in any::<bool>(),
    ) {
        let intent = if inspect { Intent::Inspect } else { Intent::Resolve };
        let claims = Claims { sub, intent, expires_at: Timestamp(ms), ..claims(&tenant, &node) };
        let token = mint(&secrets()[1], &claims).unwrap();
        prop_assert_eq!(verify(&token, &secrets()), Some(claims));
    }
}
