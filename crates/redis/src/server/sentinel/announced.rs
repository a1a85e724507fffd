//! What Sentinels announce: that a master was switched.
//!
//! Each is listened to, by a connection of its own. What one says is not believed by itself, but
//! has them asked at once; so it is not read either: nothing else is subscribed to.

use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wire::resp::put_command;

use super::{LOOK_EVERY, Server};

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Announcements {
    called: Arc<Notify>,
    _listening: JoinSet<()>,
}

impl Announcements {
    pub(super) fn new(all: &[Server]) -> Self {
        let called = Arc::new(Notify::new());
        let mut listening = JoinSet::new();
        for sentinel in all {
            listening.spawn(listen(sentinel.clone(), Arc::clone(&called)));
        }
        Self { called, _listening: listening }
    }

    /// Ends with the next announcement, and after [`LOOK_EVERY`] without one.
    pub async fn next(&mut self) {
        let _ = timeout(LOOK_EVERY, self.called.notified()).await;
    }
}

async fn listen(sentinel: Server, called: Arc<Notify>) {
    loop {
        let opened = sentinel.dial().await.ok();
        if let Some(mut connection) = opened {
            let (mut out, mut piece) = (Vec::new(), [0; 4096]);
            put_command(&mut out, ["SUBSCRIBE", "+switch-master"].iter());
            if connection.ask(&out, 1).await.is_ok() {
                while connection.read(&mut piece).await.is_ok_and(|read| read > 0) {
                    called.notify_one();
                }
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::settings::BackendSettings;

    #[tokio::test]
    async fn what_a_sentinel_announces_is_heard_again_after_it_was_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let settings: BackendSettings =
            toml::from_str(&format!("name = \"a\"\nurl = {url:?}")).unwrap();
        let announcements = Announcements::new(&[Server::new(&settings).unwrap()]);
        for _ in 0..2 {
            let (mut sentinel, _) = listener.accept().await.unwrap();
            let mut piece = [0; 256];
            for (asked, answer) in [
                ("PING", "+PONG\r\n"),
                ("SUBSCRIBE", "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"),
            ] {
                let read = sentinel.read(&mut piece).await.unwrap();
                assert!(String::from_utf8_lossy(&piece[..read]).contains(asked));
                sentinel.write_all(answer.as_bytes()).await.unwrap();
            }
            let message = b"*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$2\r\nit\r\n";
            sentinel.write_all(message).await.unwrap();
            announcements.called.notified().await;
        }
    }
}
