//! Whether the other gateways of a cluster can know of this run of this one: a statement that takes
//! points away waits for those of whom there is a note.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// What has come of the first notes on the members.
#[derive(Debug, Default)]
pub struct Announcement {
    notes: watch::Sender<FirstNotes>,
}

#[derive(Debug, Default)]
struct FirstNotes {
    is_written: bool,
    /// The members that took none, by their names.
    without: BTreeSet<String>,
}

impl Announcement {
    /// A member has a note of this run.
    pub fn written(&self) {
        self.notes.send_if_modified(|notes| !std::mem::replace(&mut notes.is_written, true));
    }

    /// A member has taken no note.
    pub fn failed(&self, member: &str) {
        self.notes.send_if_modified(|notes| {
            let is_news = !notes.is_written && !notes.without.contains(member);
            is_news && notes.without.insert(member.to_owned())
        });
    }

    /// Waits until one of so many members has a note, or none has taken one.
    pub async fn made(&self, members: usize) {
        let is_made = |notes: &FirstNotes| notes.is_written || notes.without.len() >= members;
        // The sender lives as long as this.
        let _ = self.notes.subscribe().wait_for(is_made).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::Announcement;

    #[test]
    fn it_is_made_by_one_note_or_once_no_member_takes_one() {
        let announcement = Announcement::default();
        let is_made = |members| announcement.made(members).now_or_never().is_some();
        assert!(is_made(0) && !is_made(2));
        announcement.failed("a");
        announcement.failed("a");
        assert!(!is_made(2));
        announcement.failed("b");
        assert!(is_made(2) && !is_made(3));
        announcement.written();
        assert!(is_made(3));
        announcement.failed("c");
        assert!(is_made(9));
    }
}
