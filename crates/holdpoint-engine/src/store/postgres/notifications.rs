//! The connection that sends and receives notifications. They are only hints: the database has the data.

use std::time::Duration;

use tokio::sync::mpsc;

use super::address::PostgresSettings;
use super::connect;
use super::session::PostgresSession;
use crate::store::{Error, Param, Query};

const CHANNEL: &str = "holdpoint";
/// The timeout for sending a hint. After it the connection is probably lost.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of received hints in the queue. More are dropped.
const HINTS_MAX: usize = 1024;

/// A connection that listens to the notifications of other processes and sends some.
#[derive(Debug)]
pub(crate) struct NotificationChannel {
    session: PostgresSession,
}

impl NotificationChannel {
    pub(crate) async fn open(settings: &PostgresSettings) -> Result<(Self, mpsc::Receiver<String>), Error> {
        let (sender, mut notifications) = mpsc::channel::<tokio_postgres::Notification>(HINTS_MAX);
        let session = PostgresSession::new(connect::connect(settings, Some(sender)).await?, settings);
        // A hint need not survive a crash, so it does not wait for the disk.
        let listen = format!("SET synchronous_commit = off; LISTEN {CHANNEL}");
        session.execute(Some(&listen), &[], None).await?;
        let (texts, hints) = mpsc::channel(HINTS_MAX);
        tokio::spawn(async move {
            while let Some(notification) = notifications.recv().await {
                // If the channel is full, the hint is dropped.
                let _ = texts.try_send(notification.payload().to_owned());
            }
        });
        Ok((Self { session }, hints))
    }

    pub(crate) async fn send(&self, text: &str) -> Result<(), Error> {
        let values = vec![Param::from(CHANNEL), Param::from(text)];
        let query = Query::one("SELECT 1 FROM pg_notify($1, $2)", values);
        let sent = tokio::time::timeout(SEND_TIMEOUT, self.session.execute(None, &[query], None)).await;
        sent.unwrap_or_else(|_| {
            Err(Error::Unavailable("PostgreSQL did not accept a notification in time".to_owned()))
        })
        .map(|_| ())
    }
}
