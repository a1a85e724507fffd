//! The newest events, and what keeps one subject from filling the list.

use std::collections::{HashMap, VecDeque};

use crate::diagnosis::event::{Change, Event, Level};

/// Events that are kept.
pub const EVENTS_MAX: usize = 500;
/// Events of one subject within a span; then one says that there are more, and they are not
/// listed until the span is over.
const OF_SUBJECT_MAX: u32 = 8;
const SPAN_SECONDS: f64 = 600.0;
/// Subjects that are counted.
const SUBJECTS_MAX: usize = 1000;

/// What happened, oldest first.
#[derive(Debug, Default)]
pub struct EventList {
    events: VecDeque<Event>,
    last: u64,
    /// How many events a subject had since a time.
    counts: HashMap<String, (u32, f64)>,
}

impl EventList {
    /// Puts an event back that was kept.
    pub fn restore(&mut self, event: Event) {
        self.last = self.last.max(event.number);
        self.keep(event);
    }

    /// Notes what has changed; gives the event, where it is listed.
    pub fn push(&mut self, at: f64, change: Change) -> Option<Event> {
        let change = self.admit(at, change)?;
        self.last += 1;
        let event = Event { number: self.last, at, change };
        self.keep(event.clone());
        Some(event)
    }

    fn admit(&mut self, at: f64, change: Change) -> Option<Change> {
        if self.counts.len() >= SUBJECTS_MAX && !self.counts.contains_key(&change.subject) {
            self.counts.clear();
        }
        let (times, since) = self.counts.entry(change.subject.clone()).or_insert((0, at));
        if !(0.0..SPAN_SECONDS).contains(&(at - *since)) {
            (*times, *since) = (0, at);
        }
        *times += 1;
        match *times {
            times if times < OF_SUBJECT_MAX => Some(change),
            OF_SUBJECT_MAX => {
                let text = format!(
                    "{} goes on changing; more of it is not listed for ten minutes. Last: {}",
                    change.subject, change.text
                );
                Some(Change { level: Level::Warn.min(change.level), text, ..change })
            }
            _ => None,
        }
    }

    fn keep(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }

    /// The number of the newest; 0 where there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The newest, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(subject: &str) -> Change {
        Change::new(Level::Warn, subject, "it went")
    }

    #[test]
    fn a_subject_that_comes_and_goes_does_not_hide_others() {
        let mut list = EventList::default();
        let listed = (0..100).filter(|at| list.push(f64::from(*at), change("b")).is_some()).count();
        assert_eq!(listed, 8);
        assert!(list.iter().last().unwrap().change.text.contains("goes on changing"));
        assert!(list.push(100.0, change("a")).is_some());
        assert_eq!(list.push(700.0, change("b")).unwrap().number, 10, "the span is over");
    }

    #[test]
    fn so_many_are_kept_and_numbers_go_on_after_a_restart() {
        let mut list = EventList::default();
        for at in 0..2000_u32 {
            list.push(f64::from(at), change(&at.to_string()));
        }
        assert_eq!((list.iter().count(), list.last()), (EVENTS_MAX, 2000));
        let mut again = EventList::default();
        list.iter().for_each(|event| again.restore(event.clone()));
        assert_eq!(again.push(0.0, change("new")).unwrap().number, 2001);
    }
}
