//! Whether what Weir keeps of a master is all that the master has.

use std::time::Duration;

use super::decide::CopyState;
use super::seen::ServerReport;
use crate::replica::state::MasterStatus;

/// What was seen of one master and of Weir's file of it. Times are since the guard was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyTracker {
    /// How far which run of the master was at the look before.
    before: Option<(String, u64)>,
    /// When all that it had sent at the look before was last durable.
    durable_at: Duration,
}

impl CopyTracker {
    /// The master was asked, and then its file looked at.
    pub fn note(&mut self, seen: &ServerReport, file: &MasterStatus, now: Duration) -> CopyState {
        let is_doubted = file.awaits_keys || file.lacks_confirmed;
        let is_well = file.link == "following" && !is_doubted && file.trouble.is_none();
        let before = self.before.replace((seen.run_id.clone(), seen.offset));
        // A look before: what the master sends right now is on its way in any case.
        let has_all =
            before.is_some_and(|(run, offset)| run == seen.run_id && file.durable >= offset);
        if is_well && has_all {
            self.durable_at = now;
            return match file.unverified_bytes {
                0 => CopyState::Durable,
                _ => CopyState::Taking,
            };
        }
        if file.link == "base" {
            self.durable_at = now;
            return CopyState::Taking;
        }
        CopyState::Behind(now.saturating_sub(self.durable_at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::decide::CopyState;
    use super::super::seen::ServerReport;
    use super::CopyTracker;
    use crate::replica::state::MasterStatus;

    fn seen(offset: u64) -> ServerReport {
        ServerReport { run_id: "a".into(), offset, ..ServerReport::default() }
    }

    fn file(link: &str, durable: u64) -> MasterStatus {
        MasterStatus { link: link.into(), durable, ..MasterStatus::default() }
    }

    #[test]
    fn a_file_that_is_not_read_yet_is_no_copy_to_turn_the_masters_off_for() {
        let mut tracked = CopyTracker::default();
        let mut note = |file: &MasterStatus, seconds| {
            tracked.note(&seen(100), file, Duration::from_secs(seconds))
        };
        let unread = MasterStatus { unverified_bytes: 5, ..file("following", 100) };
        note(&unread, 0);
        assert_eq!(note(&unread, 10), CopyState::Taking);
        assert_eq!(note(&file("following", 100), 20), CopyState::Durable);
    }

    #[test]
    fn a_file_is_durable_once_it_has_what_the_master_had_a_look_before() {
        let mut tracked = CopyTracker::default();
        let mut note = |offset, file: &MasterStatus, seconds| {
            tracked.note(&seen(offset), file, Duration::from_secs(seconds))
        };
        let behind = |seconds| CopyState::Behind(Duration::from_secs(seconds));
        assert_eq!(note(100, &file("following", 100), 0), behind(0), "there was no look before");
        assert_eq!(note(200, &file("following", 150), 10), CopyState::Durable);
        assert_eq!(note(300, &file("following", 199), 20), behind(10));
        assert_eq!(note(300, &file("connecting", 300), 30), behind(20));
        assert_eq!(note(300, &file("base", 300), 40), CopyState::Taking);
        assert_eq!(note(300, &file("connecting", 300), 50), behind(10));
        let awaited = MasterStatus { awaits_keys: true, ..file("following", 300) };
        assert_eq!(note(300, &awaited, 60), behind(20));
        let lost = MasterStatus { lacks_confirmed: true, ..file("following", 300) };
        assert_eq!(note(300, &lost, 65), behind(25));
        let troubled = MasterStatus { trouble: Some("disk".into()), ..file("following", 300) };
        assert_eq!(note(300, &troubled, 70), behind(30));
        let restarted = ServerReport { run_id: "b".into(), ..seen(300) };
        let copied = tracked.note(&restarted, &file("following", 300), Duration::from_secs(80));
        assert_eq!(copied, behind(40), "its offsets are others");
    }
}
