//! The task of a shared connection: it moves bytes, and opens the connection anew where it ends.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use flow::dial::Target;
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use super::channel::{Channel, ChannelEnd};
use super::connection::{PAUSES, ThreadState};
use super::idle::LOOK;
use crate::failure::Owner;
use crate::workload::Workload;

/// Serves the users of a shared connection until the task is ended, or the connection leaves.
pub async fn serve<W: Workload>(channel: Rc<Channel>, target: Target, shared: Rc<ThreadState<W>>) {
    if !channel.has_socket() {
        let socket = shared.reach(&target).await;
        channel.open(socket);
    }
    loop {
        let opened = Instant::now();
        let end = drive(&channel, &shared).await;
        let was_used = channel.close(&end);
        if let (ChannelEnd::Malformed(malformed), false) = (&end, was_used) {
            let mut record = shared.record.borrow_mut();
            record.note_error(Owner::Server, malformed.0, Instant::now());
        }
        if channel.is_leaving() {
            return;
        }
        // A server that ends each connection at once is not asked for the next one at once.
        if opened.elapsed() < PAUSES.1 {
            sleep(PAUSES.0).await;
        }
        let socket = shared.reach(&target).await;
        shared.record.borrow_mut().note_reconnect();
        channel.open(socket);
    }
}

async fn drive<W: Workload>(channel: &Channel, shared: &ThreadState<W>) -> ChannelEnd {
    let mut looks = interval_at(tokio::time::Instant::now() + LOOK, LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut driven = pin!(poll_fn(|cx| channel.poll_drive(cx, &mut shared.scratch.borrow_mut())));
    loop {
        tokio::select! {
            biased;
            end = &mut driven => return end,
            _ = looks.tick() => {
                if let Err(end) = channel.look() {
                    return end;
                }
            }
        }
    }
}
