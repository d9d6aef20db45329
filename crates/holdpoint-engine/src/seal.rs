//! Encryption of secrets in the database. The seal key is stored elsewhere, so that the database alone does not
//! reveal them.

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
/// The prefix of sealed values, which identifies the format.
const VERSION: &str = "s1.";

/// The key that encrypts secrets. All processes of a database have the same key.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey([u8; KEY_BYTES]);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", self.name())
    }
}

/// The error for a text that is not a seal key.
#[derive(Debug, thiserror::Error)]
#[error("a seal key must be 32 random bytes in base64; create one with `head -c 32 /dev/urandom | base64`")]
pub struct BadSealKey;

impl FromStr for SealKey {
    type Err = BadSealKey;

    fn from_str(text: &str) -> Result<Self, BadSealKey> {
        let bytes = BASE64.decode(text.trim().trim_end_matches('=')).map_err(|_| BadSealKey)?;
        bytes.try_into().map(Self).map_err(|_| BadSealKey)
    }
}

impl SealKey {
    /// Returns a new random key.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| io::Error::other("the system provides no random bytes"))?;
        Ok(Self(bytes))
    }

    /// Returns the key in a file. Creates the file with a new key, readable only by its owner, if it does not exist.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match Self::read(path)? {
            Some(key) => Ok(key),
            None => Self::generate()?.save_new(path),
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

    /// Writes the key to a temporary file and links it to `path`, so that no process reads half a key. If the file
    /// exists by then, returns its key.
    fn save_new(self, path: &Path) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}", uuid::Uuid::now_v7()));
        let temporary = Path::new(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
        file.write_all(format!("{}\n", BASE64.encode(self.0)).as_bytes())?;
        file.sync_all()?;
        let linked = std::fs::hard_link(temporary, path);
        std::fs::remove_file(temporary)?;
        match linked {
            Ok(()) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
                Ok(self)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load_or_create(path),
            Err(error) => Err(error),
        }
    }

    /// Returns a name that identifies the key and does not reveal it.
    pub fn name(&self) -> String {
        let hash = Sha256::new().chain_update(b"holdpoint seal key\0").chain_update(self.0).finalize();
        hex(&hash[..8])
    }
}

/// The error for a sealed value that cannot be decrypted.
#[derive(Debug, thiserror::Error)]
#[error("cannot decrypt a sealed value: it was changed, moved or sealed with another key")]
pub struct UnsealError;

/// Encrypts and decrypts secrets. A sealed value is bound to a context, such as `webhook/ID`: it cannot be
/// decrypted with another context.
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
        // Only a wrong length is rejected, and the type guarantees the length.
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key.0).expect("32 bytes");
        Self { key: LessSafeKey::new(key), random: SystemRandom::new() }
    }

    /// Encrypts a secret with a random nonce. With 96 bits, two equal nonces are likely only after billions of secrets.
    pub(crate) fn seal(&self, context: &str, secret: &[u8]) -> Result<String, UnsealError> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| UnsealError)?;
        let mut sealed = secret.to_vec();
        let bound = Aad::from(context.as_bytes());
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce_used, bound, &mut sealed).map_err(|_| UnsealError)?;
        Ok(format!("{VERSION}{}", BASE64.encode([&nonce[..], &sealed].concat())))
    }

    pub(crate) fn open(&self, context: &str, sealed: &str) -> Result<Vec<u8>, UnsealError> {
        let text = sealed.strip_prefix(VERSION).ok_or(UnsealError)?;
        let bytes = BASE64.decode(text).map_err(|_| UnsealError)?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN).ok_or(UnsealError)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| UnsealError)?;
        let mut rest = rest.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(context.as_bytes()), &mut rest);
        opened.map(|plain| plain.to_vec()).map_err(|_| UnsealError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_in_its_place_and_with_its_key() {
        let seal = Seal::new(&SealKey::generate().unwrap());
        let sealed = seal.seal("webhook/1", b"a secret").unwrap();
        assert!(!sealed.contains("secret"));
        assert_eq!(seal.open("webhook/1", &sealed).unwrap(), b"a secret");
        assert!(seal.open("webhook/2", &sealed).is_err(), "moved");
        assert!(Seal::new(&SealKey::generate().unwrap()).open("webhook/1", &sealed).is_err(), "another key");
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
    fn a_key_file_is_created_once_and_readable_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let keys: Vec<SealKey> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| SealKey::load_or_create(&path).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "concurrent callers get the same key");
        assert_eq!(SealKey::load_or_create(&path).unwrap(), keys[0]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_key_is_32_bytes_in_base64_and_debug_does_not_show_it() {
        let key: SealKey = BASE64.encode([7; 32]).parse().unwrap();
        assert_eq!(format!("{}=", BASE64.encode([7; 32])).parse::<SealKey>().unwrap(), key);
        assert_eq!(format!("{key:?}"), format!("SealKey({})", key.name()));
        for wrong in ["", "short", "*", &BASE64.encode([7; 31]), &BASE64.encode([7; 33])] {
            assert!(wrong.parse::<SealKey>().is_err(), "{wrong}");
        }
    }
}
