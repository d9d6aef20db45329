//! The hash of a certificate that both ends mix into the password exchange (`tls-server-end-point`, RFC 5929).

use sha2::{Digest, Sha256, Sha384, Sha512};

/// The object identifiers of signature algorithms, without their last number.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];

/// Returns the hash of the certificate with the algorithm of its signature, or with SHA-256 instead of MD5 and SHA-1.
/// Returns None if the signature algorithm has no such hash; then there is no channel binding.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let identifier = signature_algorithm(certificate)?;
    let (last, family) = identifier.split_last()?;
    match (family, last) {
        (RSA, 4 | 5 | 11) | (ECDSA, 1) | (ECDSA_SHA2, 2) => Some(Sha256::digest(certificate).to_vec()),
        (RSA, 12) | (ECDSA_SHA2, 3) => Some(Sha384::digest(certificate).to_vec()),
        (RSA, 13) | (ECDSA_SHA2, 4) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Returns the object identifier of the signature algorithm. A certificate is a sequence of the signed part, the
/// algorithm and the signature.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (parts, _) = element(SEQUENCE, certificate)?;
    let (_, after_signed_part) = element(SEQUENCE, parts)?;
    let (algorithm, _) = element(SEQUENCE, after_signed_part)?;
    element(OBJECT_IDENTIFIER, algorithm).map(|(identifier, _)| identifier)
}

/// Returns the content of the first DER element, and the bytes after it.
fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    (*found == tag).then_some(())?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::{ECDSA, ECDSA_SHA2, RSA, end_point};

    /// Returns the outer structure of a certificate, with a signed part whose length has two bytes.
    fn signed_with(family: &[u8], last: u8) -> Vec<u8> {
        let identifier = [&[0x06, family.len() as u8 + 1], family, &[last]].concat();
        let algorithm = [&[0x30, identifier.len() as u8], &identifier[..]].concat();
        let parts = [&[0x30, 0x82, 0x01, 0x00][..], &[0; 256], &algorithm, &[0x03, 0x01, 0x00]].concat();
        [&[0x30, 0x82][..], &(parts.len() as u16).to_be_bytes(), &parts].concat()
    }

    #[test]
    fn the_hash_has_the_algorithm_of_the_signature_and_at_least_sha_256() {
        for (family, last, bytes) in [
            (RSA, 4, Some(32)),
            (RSA, 5, Some(32)),
            (RSA, 11, Some(32)),
            (RSA, 12, Some(48)),
            (RSA, 13, Some(64)),
            (ECDSA, 1, Some(32)),
            (ECDSA_SHA2, 2, Some(32)),
            (ECDSA_SHA2, 3, Some(48)),
            (ECDSA_SHA2, 4, Some(64)),
            // RSASSA-PSS has its hash in the parameters.
            (RSA, 10, None),
        ] {
            let hash = end_point(&signed_with(family, last));
            assert_eq!(hash.map(|hash| hash.len()), bytes, "{family:?} {last}");
        }
    }

    #[test]
    fn a_truncated_certificate_has_no_hash() {
        let certificate = signed_with(RSA, 11);
        for length in 0..certificate.len() {
            assert_eq!(end_point(&certificate[..length]), None, "{length} bytes");
        }
    }
}
