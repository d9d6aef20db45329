//! Secrets that we must be able to use again, and that nobody may read who only has the database: sealed with a key that
//! is kept elsewhere.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use holdpoint_core::hex;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

const KEY_BYTES: usize = 32;
/// In front of everything sealed, for the day when there is another way.
const VERSION: &str = "s1.";

/// The key that seals. All nodes of a database have the same.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey([u8; KEY_BYTES]);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", self.name())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a seal key is 32 random bytes in base64, as `head -c 32 /dev/urandom | base64` makes them")]
pub struct BadSealKey;

impl FromStr for SealKey {
    type Err = BadSealKey;

    fn from_str(text: &str) -> Result<Self, BadSealKey> {
        let bytes = BASE64.decode(text.trim().trim_end_matches('=')).map_err(|_| BadSealKey)?;
        bytes.try_into().map(Self).map_err(|_| BadSealKey)
    }
}

impl SealKey {
    pub fn fresh() -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("there is no randomness"))?;
        Ok(Self(bytes))
    }

    /// The key in a file. If there is no such file it is made, readable by its owner alone.
    pub fn kept_in(path: &Path) -> io::Result<Self> {
        match Self::read(path)? {
            Some(key) => Ok(key),
            None => Self::fresh()?.keep_in(path),
        }
    }

    /// Returns the key in a file, or None if there is no such file.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::read_to_string(path) {
            Ok(text) => text
                .parse()
                .map(Some)
                .map_err(|error: BadSealKey| io::Error::new(io::ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Written beside and linked into place: nobody ever reads half a key, and whoever comes second takes the first one's.
    fn keep_in(self, path: &Path) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", uuid::Uuid::now_v7()));
        let beside = Path::new(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
        file.write_all(format!("{}\n", BASE64.encode(self.0)).as_bytes())?;
        file.sync_all()?;
        let linked = std::fs::hard_link(beside, path);
        std::fs::remove_file(beside)?;
        match linked {
            Ok(()) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
                Ok(self)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::kept_in(path),
            Err(error) => Err(error),
        }
    }

    /// Tells keys apart without telling anything of them.
    pub fn name(&self) -> String {
        let hash = Sha256::new().chain_update(b"holdpoint seal key\0").chain_update(self.0).finalize();
        hex(&hash[..8])
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a sealed secret does not open: it was changed, moved or sealed with another key")]
pub struct Unopenable;

/// Seals and opens. What is sealed is bound to its place: the same bytes somewhere else do not open.
pub(crate) struct Seal {
    key: LessSafeKey,
    random: SystemRandom,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    pub(crate) fn new(key: &SealKey) -> Self {
        // Only a wrong length is refused, and the type has none.
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key.0).expect("32 bytes");
        Self { key: LessSafeKey::new(key), random: SystemRandom::new() }
    }

    /// A nonce is random. With 96 bits of it, billions of secrets would have to be sealed before two were likely alike.
    pub(crate) fn seal(&self, place: &str, secret: &[u8]) -> Result<String, Unopenable> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| Unopenable)?;
        let mut sealed = secret.to_vec();
        let bound = Aad::from(place.as_bytes());
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce_used, bound, &mut sealed).map_err(|_| Unopenable)?;
        Ok(format!("{VERSION}{}", BASE64.encode([&nonce[..], &sealed].concat())))
    }

    pub(crate) fn open(&self, place: &str, sealed: &str) -> Result<Vec<u8>, Unopenable> {
        let text = sealed.strip_prefix(VERSION).ok_or(Unopenable)?;
        let bytes = BASE64.decode(text).map_err(|_| Unopenable)?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN).ok_or(Unopenable)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unopenable)?;
        let mut rest = rest.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut rest);
        opened.map(|plain| plain.to_vec()).map_err(|_| Unopenable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_in_its_place_and_nowhere_else() {
        let seal = Seal::new(&SealKey::fresh().unwrap());
        let sealed = seal.seal("webhook/1", b"a secret").unwrap();
        assert!(!sealed.contains("secret"));
        assert_eq!(seal.open("webhook/1", &sealed).unwrap(), b"a secret");
        assert!(seal.open("webhook/2", &sealed).is_err(), "moved");
        assert!(Seal::new(&SealKey::fresh().unwrap()).open("webhook/1", &sealed).is_err(), "another key");
        assert_ne!(sealed, seal.seal("webhook/1", b"a secret").unwrap(), "equal secrets do not look equal");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(seal.open("webhook/1", &String::from_utf8(changed).unwrap()).is_err(), "changed at {at}");
        }
        for cut in 0..sealed.len() {
            assert!(seal.open("webhook/1", &sealed[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_key_is_made_once_and_only_its_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let keys: Vec<SealKey> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| SealKey::kept_in(&path).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "all who came at once have the same");
        assert_eq!(SealKey::kept_in(&path).unwrap(), keys[0]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_key_is_32_bytes_in_base64_and_never_shown() {
        let key: SealKey = BASE64.encode([7; 32]).parse().unwrap();
        assert_eq!(format!("{}=", BASE64.encode([7; 32])).parse::<SealKey>().unwrap(), key);
        assert_eq!(format!("{key:?}"), format!("SealKey({})", key.name()));
        for wrong in ["", "short", "*", &BASE64.encode([7; 31]), &BASE64.encode([7; 33])] {
            assert!(wrong.parse::<SealKey>().is_err(), "{wrong}");
        }
    }
}
