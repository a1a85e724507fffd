//! `CLIENT UNBLOCK`: who waits for what others do is let go by the server where it waits.
//!
//! A server knows none of Weir's clients, but the connections by which they wait. By the time it is
//! told to let one go, that client may have its answer. So nobody else has that connection later.

use std::rc::Rc;

use wire::resp::{Command, Value, value};

use super::{Asking, CommandResult, Session, join};
use crate::commands::number;
use crate::front::Front;
use crate::server::Login;
use crate::servers::BlockedConnection;

impl Session {
    pub(super) fn unblock(&self, command: &Command<'_>, client: &Asking) -> CommandResult {
        let how = match command.get(3).map(<[u8]>::to_ascii_uppercase).as_deref() {
            None | Some(b"TIMEOUT") => "TIMEOUT",
            Some(b"ERROR") => "ERROR",
            Some(_) => {
                return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".to_owned());
            }
        };
        let id = command.get(2).and_then(number);
        let id = id.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())?;
        let account = Rc::clone(&self.account);
        self.ask_workers(client, move |front| async move {
            let waiting = front.shared.asked(move |front| front.waiting(id)).await;
            for at in waiting.into_iter().flatten() {
                match let_go(&front, account.login(), at, how).await {
                    // Its answer has come meanwhile.
                    Ok(0) => {}
                    Ok(_) => return b":1\r\n".to_vec(),
                    Err(words) => return join::error(&words),
                }
            }
            b":0\r\n".to_vec()
        });
        Ok(())
    }
}

/// Has the server let go who waits there: how many it has.
async fn let_go(
    front: &Front,
    login: &Login,
    at: BlockedConnection,
    how: &str,
) -> Result<i64, String> {
    let view = front.fabric.service().view();
    let is_same = view.incarnation(at.server) == Some(at.incarnation);
    // A connection to a server that is another one now is closed in any case.
    let Some(server) = view.server(at.server).filter(|_| is_same) else { return Ok(0) };
    let id = at.id.ok_or_else(|| says_no_id(&server.name))?;
    let words = ["CLIENT", "UNBLOCK", &id.to_string(), how];
    let answer = server.logged_in(login).ask_apart(&words).await;
    let answer = answer.map_err(|error| format!("ERR weir: {}: {error}", server.name))?;
    match value(&answer) {
        Ok((Value::Integer(count), _)) => Ok(count),
        Ok((Value::Error(words), _)) => Err(String::from_utf8_lossy(words).into_owned()),
        _ => Err(format!("ERR weir: {} does not say whom it has let go", server.name)),
    }
}

/// What a client hears where a server does not tell the number of a connection.
fn says_no_id(server: &str) -> String {
    format!("ERR weir: {server} does not say its CLIENT ID")
}
