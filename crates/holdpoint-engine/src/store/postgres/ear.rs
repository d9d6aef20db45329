//! A connection for notifications, in both directions. Only hints go through it.

use std::time::Duration;

use tokio::sync::mpsc;

use super::address::Settings;
use super::connect;
use super::session::Session;
use crate::store::{Error, Param, Query};

const CHANNEL: &str = "holdpoint";
/// A hint that takes longer than this is not worth waiting for, and the connection is probably gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// Hints that wait to be heard; more are dropped.
const HINTS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Ear {
    session: Session,
}

impl Ear {
    pub(crate) async fn open(settings: &Settings) -> Result<(Self, mpsc::Receiver<String>), Error> {
        let (sender, mut notifications) = mpsc::channel::<tokio_postgres::Notification>(HINTS_MAX);
        let session = Session::new(connect::connect(settings, Some(sender)).await?, settings);
        // A hint need not survive a crash, so nobody waits for the disk.
        let listen = format!("SET synchronous_commit = off; LISTEN {CHANNEL}");
        session.ask(Some(&listen), &[], None).await?;
        let (texts, hints) = mpsc::channel(HINTS_MAX);
        tokio::spawn(async move {
            while let Some(notification) = notifications.recv().await {
                // A full channel holds hints enough.
                let _ = texts.try_send(notification.payload().to_owned());
            }
        });
        Ok((Self { session }, hints))
    }

    pub(crate) async fn tell(&self, text: &str) -> Result<(), Error> {
        let values = vec![Param::from(CHANNEL), Param::from(text)];
        let query = Query::one("SELECT 1 FROM pg_notify($1, $2)", values);
        let told = tokio::time::timeout(PATIENCE, self.session.ask(None, &[query], None)).await;
        told.unwrap_or_else(|_| Err(Error::Unavailable("nobody takes our hints".to_owned()))).map(|_| ())
    }
}
