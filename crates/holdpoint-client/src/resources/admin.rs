//! Keys, sessions, link secrets, usage and health.

use holdpoint_api::admin::{Health, RotateSecrets, Secret, SecretList, Usage};
use holdpoint_api::discovery::Discovery;
use holdpoint_api::ids::encode_segment;
use holdpoint_api::keys::{CreateKey, KeyCreated, KeyList, RotateKey};
use holdpoint_api::sessions::{CreateSessionLink, Session, SessionLink, SessionList};

use crate::{Client, Request};

/// Manages API keys.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a>(pub(super) &'a Client);

impl Keys<'_> {
    /// Creates a key. Only the first response has the secret: it is not in the response of a repeated request.
    pub fn create(self, key: &CreateKey) -> Request<KeyCreated> {
        self.0.post("/v1/keys").body(key)
    }

    /// Lists keys.
    pub fn list(self) -> Request<KeyList> {
        self.0.get("/v1/keys")
    }

    /// Revokes a key.
    pub fn revoke(self, key: &str) -> Request<()> {
        self.0.delete(format!("/v1/keys/{}", encode_segment(key)))
    }

    /// Creates the successor of a key. Only the first response has the new secret.
    pub fn rotate(self, key: &str, rotation: &RotateKey) -> Request<KeyCreated> {
        self.0.post(format!("/v1/keys/{}:rotate", encode_segment(key))).body(rotation)
    }
}

/// Manages sessions of the inbox page.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'a>(pub(super) &'a Client);

impl Sessions<'_> {
    /// Creates a link that signs in once.
    pub fn create_link(self, link: &CreateSessionLink) -> Request<SessionLink> {
        self.0.post("/v1/session:link").body(link)
    }

    /// Returns the session of this client.
    pub fn current(self) -> Request<Session> {
        self.0.get("/v1/session")
    }

    /// Lists sessions.
    pub fn list(self) -> Request<SessionList> {
        self.0.get("/v1/sessions")
    }

    /// Ends a session.
    pub fn revoke(self, session: &str) -> Request<()> {
        self.0.delete(format!("/v1/sessions/{}", encode_segment(session)))
    }
}

/// Manages the secrets that sign links.
#[derive(Clone, Copy, Debug)]
pub struct LinkSecrets<'a>(pub(super) &'a Client);

impl LinkSecrets<'_> {
    /// Lists the secrets, without their values.
    pub fn list(self) -> Request<SecretList> {
        self.0.get("/v1/secrets")
    }

    /// Creates a new secret for new links.
    pub fn rotate(self, rotation: &RotateSecrets) -> Request<Secret> {
        self.0.post("/v1/secrets:rotate").body(rotation)
    }
}

/// Reads the usage of the tenant, the discovery document and the health of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerInfo<'a>(pub(super) &'a Client);

impl ServerInfo<'_> {
    /// Returns the quotas of the tenant and their use.
    pub fn usage(self) -> Request<Usage> {
        self.0.get("/v1/usage")
    }

    /// Returns the discovery document of OpenWOP. Needs no key.
    pub fn discovery(self) -> Request<Discovery> {
        self.0.get("/.well-known/openwop")
    }

    /// Returns whether the server accepts requests. Needs no key.
    pub fn ready(self) -> Request<Health> {
        self.0.get("/readyz")
    }
}
