//! The pacer of a thread: hands out what is due when its alarm rings, and ends the run.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use super::EngineError;
use super::alarm::Alarm;
use super::connection::ThreadState;
use super::looks::SLEEP_MAX;
use super::pacing::{PacerStep, Pacing};
use super::record::ThreadRecord;
use super::sending::Sending;
use crate::workload::Workload;

/// Hands out what is due until nothing more is sent.
pub async fn pace<W: Workload>(
    shared: &ThreadState<W>,
    alarm: &Alarm,
    end: Instant,
) -> Result<(), EngineError> {
    loop {
        let at = {
            let mut sending = shared.sending.borrow_mut();
            let mut record = shared.record.borrow_mut();
            let now = Instant::now();
            let next = hand_out(&mut sending, &mut record, now);
            if now >= end || sending.stop.asked() > 0 || sending.pacing.is_used_up() {
                return Ok(());
            }
            // It looks before anything is due, so that it knows of its own pauses.
            let at = next.unwrap_or(end).min(end).min(Instant::now() + SLEEP_MAX);
            record.expect(at);
            sending.set_alarm(at);
            at
        };
        alarm.set(at).map_err(|error| EngineError::Injector(error.to_string()))?;
        let rung = poll_fn(|cx| {
            let mut sending = shared.sending.borrow_mut();
            sending.listen_as_pacer(cx);
            if sending.has_work_for_pacer() || sending.stop.asked() > 0 {
                return Poll::Ready(Ok(()));
            }
            alarm.poll(cx)
        });
        rung.await.map_err(|error| EngineError::Injector(error.to_string()))?;
    }
}

/// Gives what is due to connections that are free; gives when more is due, if that is known.
fn hand_out(sending: &mut Sending, record: &mut ThreadRecord, now: Instant) -> Option<Instant> {
    record.look(now);
    loop {
        match sending.pacing.step(now) {
            PacerStep::Send { connection, job } => sending.assign(connection, job),
            PacerStep::EndThinking { span, job } => {
                record.note_thinking(span);
                if let Some(job) = job {
                    sending.assign(span.connection, job);
                }
            }
            PacerStep::SleepUntil(due) => return Some(due),
            PacerStep::WaitForConnection | PacerStep::WaitForAnswer => return None,
        }
    }
}

/// Sends nothing more from now on: what is due and waits for a connection counts at its age, and
/// what connections did is accounted for until now.
pub fn end<W: Workload>(shared: &ThreadState<W>, now: Instant) {
    let mut sending = shared.sending.borrow_mut();
    let mut record = shared.record.borrow_mut();
    let end = record.end(now);
    match &mut sending.pacing {
        Pacing::Open(open) => {
            let workload = shared.workload.borrow();
            let operation = |number| shared.first_operation + workload.operation(number);
            let unsent = std::iter::from_fn(|| open.take_unsent(end));
            record.note_unsent(unsent.map(|(number, due)| (operation(number), due)), end);
        }
        Pacing::Closed(closed) => {
            closed.stop_thinking(end).for_each(|span| record.note_thinking(span));
            if closed.is_used_up() {
                // Nothing of these times was lost: there was nothing to send.
                closed.finished().for_each(|since| record.note_idle(since));
            }
        }
    }
    sending.end();
}

/// Looks again and again while the last answers come, so that the thread knows of its pauses; ends
/// only where it can't.
pub async fn keep_looking<W: Workload>(shared: &ThreadState<W>, alarm: &Alarm) -> EngineError {
    let failed = |error: std::io::Error| EngineError::Injector(error.to_string());
    loop {
        let now = Instant::now();
        {
            let mut record = shared.record.borrow_mut();
            record.roll(now);
            record.expect(now + SLEEP_MAX);
        }
        if let Err(error) = alarm.set(now + SLEEP_MAX) {
            return failed(error);
        }
        if let Err(error) = poll_fn(|cx| alarm.poll(cx)).await {
            return failed(error);
        }
    }
}

pub async fn wait_until(alarm: &Alarm, at: Instant) -> Result<(), EngineError> {
    let failed = |error: std::io::Error| EngineError::Injector(error.to_string());
    while Instant::now() < at {
        alarm.set(at).map_err(failed)?;
        poll_fn(|cx| alarm.poll(cx)).await.map_err(failed)?;
    }
    Ok(())
}
