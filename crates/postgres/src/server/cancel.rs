//! Asking a server to cancel what one of its connections runs ("Message Flow", Canceling Requests
//! in Progress).

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::postgres::startup;

use super::dial::connect;
use super::{CancelKey, DialError, Server, TalkError};

/// Asks, and waits until the server has closed the connection, which is when it has sent the
/// signal: a statement that is begun afterwards on the connection of `key` is not hit by it.
///
/// # Errors
/// The server can't be reached within its `connect_timeout`. Whether anything was cancelled nobody
/// says.
pub async fn cancel(server: &Server, key: &CancelKey) -> Result<(), DialError> {
    let address = || server.target.address.to_string();
    let ask = async {
        let mut socket = connect(server).await?;
        let mut request = Vec::new();
        startup::put_cancel(&mut request, key.process_id, &key.secret);
        let asked = async {
            socket.write_all(&request).await?;
            socket.flush().await?;
            // It says nothing and closes, and how it closes says nothing either.
            let _ = socket.read(&mut [0]).await;
            Ok(())
        };
        let asked: Result<(), std::io::Error> = asked.await;
        asked.map_err(|e| DialError::Talk { address: address(), source: TalkError::Io(e) })
    };
    server.target.in_time(ask).await
}
