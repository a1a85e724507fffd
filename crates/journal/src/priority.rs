//! The journal thread before all others, where the system permits it.
//!
//! A group takes several wakes of this one thread: for its first record, and for each step of the
//! sync. On a busy machine the scheduler adds milliseconds to each of them, though the thread takes
//! next to no time itself. Linux also lets a real-time thread dirty somewhat more pages than others
//! before it is made to wait for the disk.

use thread_priority::unix::set_thread_priority_and_policy;
use thread_priority::{
    Error, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, thread_native_id,
};

const POLICY: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);

/// Gives the calling thread the lowest real-time priority; whether that is permitted. Where it is
/// not the thread goes on as it is: slower beside others, and no less safe.
pub(crate) fn raise() -> bool {
    let raised = attempt();
    if let Err(error) = &raised {
        tracing::info!(
            %error,
            "the journal thread has no real-time priority: on a busy machine acknowledgements take \
             longer; LimitRTPRIO=1 in the unit, or CAP_SYS_NICE, permits it"
        );
    }
    raised.is_ok()
}

fn attempt() -> Result<(), Error> {
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, POLICY)
}

#[cfg(test)]
mod tests {
    use super::{POLICY, attempt};
    use thread_priority::thread_schedule_policy;

    #[test]
    fn the_calling_thread_is_raised_or_left_as_it_was() {
        let thread = std::thread::spawn(|| {
            let before = thread_schedule_policy().unwrap();
            let expected = if attempt().is_ok() { POLICY } else { before };
            assert_eq!(thread_schedule_policy().unwrap(), expected);
        });
        thread.join().unwrap();
    }
}
