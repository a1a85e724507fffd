//! A client of the console, from its greeting to its end.

use std::rc::Rc;
use std::time::Duration;

use flow::outlet::Outlet;
use wire::postgres::backend::{
    Status, put_authentication_ok, put_backend_key_data, put_ready_for_query,
};
use wire::postgres::{Refusal, frame, sqlstate};

use crate::console::{Answer, Seat, Show};
use crate::worker::WorkerContext;

/// The longest message that the console takes; its commands are short.
const MESSAGE_MAX: usize = 16 << 10;

/// How often it is looked whether a client has gone that waits for a command to be done.
const GONE_TURN: Duration = Duration::from_millis(100);

/// Serves a client that has logged in and may sit here.
pub async fn serve(front: Rc<WorkerContext>, outlet: Outlet, seat: Seat, mut inbox: Vec<u8>) {
    let mut out = Vec::with_capacity(512);
    put_authentication_ok(&mut out);
    Seat::welcome(&mut out);
    put_backend_key_data(&mut out, front.shared.number(), &[0; 4]);
    put_ready_for_query(&mut out, Status::Idle);
    outlet.send(&out);
    let refusal = loop {
        let (tag, body, len) = match frame::next(&inbox, MESSAGE_MAX) {
            Ok(Some(frame)) => (frame.tag, frame.body.to_vec(), frame.whole.len()),
            Ok(None) => match outlet.read(&mut inbox).await {
                Ok(0) | Err(_) => break None,
                Ok(_) => continue,
            },
            Err(error) => {
                let what = error.to_string();
                break Some(Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, what));
            }
        };
        inbox.drain(..len);
        out.clear();
        match tag {
            b'Q' => query(&front, &outlet, &seat, &body, &mut out).await,
            b'S' => put_ready_for_query(&mut out, Status::Idle),
            b'X' => break None,
            _ => break Some(Seat::other_message()),
        }
        outlet.send(&out);
        if outlet.is_closed() {
            break None;
        }
    };
    if let Some(refusal) = refusal {
        out.clear();
        refusal.encode(&mut out);
        outlet.send(&out);
    }
    outlet.finish().await;
}

async fn query(
    front: &Rc<WorkerContext>,
    outlet: &Outlet,
    seat: &Seat,
    body: &[u8],
    out: &mut Vec<u8>,
) {
    let sql = body.strip_suffix(b"\0").unwrap_or(body);
    match seat.on_query(sql, out) {
        Answer::Whole => {}
        Answer::Show(show) => {
            let clients =
                matches!(show, Show::Clients | Show::Sockets | Show::ActiveSockets | Show::Lists);
            let snapshot = front.shared.shown(clients).await;
            show.encode(&snapshot, &front.settings(), out);
        }
        Answer::Act(action) => {
            let outcome = tokio::select! {
                outcome = front.shared.act(&action) => outcome,
                // Whoever waits for PAUSE may go; the pause stays.
                () = outlet.gone(GONE_TURN) => return,
            };
            action.done(outcome, out);
        }
    }
}
