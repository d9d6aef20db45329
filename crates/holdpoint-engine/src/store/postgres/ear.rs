//! A connection for notifications, in both directions. Only hints go through it.

use tokio::sync::mpsc;

use super::address::Settings;
use super::session::Session;
use super::{connect, in_time};
use crate::store::{Error, Param, Query};

const CHANNEL: &str = "holdpoint";
/// Hints that wait to be heard; more are dropped.
const HINTS_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Ear {
    session: Session,
    settings: Settings,
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
        Ok((Self { session, settings: settings.clone() }, hints))
    }

    pub(crate) async fn tell(&self, text: &str) -> Result<(), Error> {
        let values = vec![Param::from(CHANNEL), Param::from(text)];
        let query = Query::one("SELECT 1 FROM pg_notify($1, $2)", values);
        in_time(&self.settings, self.session.ask(None, &[query], None)).await.map(|_| ())
    }
}
