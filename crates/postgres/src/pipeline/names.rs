//! A client's prepared statements by its own names.
//!
//! Messages go out before those in front of them are answered, and what follows an error in a
//! round the server leaves out. So each change of a name is noted with what was there before, until
//! its answer has come: [`Names::heard`] goes through them in the order of the messages, and undoes
//! those that never happened. Until then nobody may rely on a name that an earlier round has
//! changed: see [`Names::is_unsure`].

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Parse, Target, tag};

use super::script::{Outcome, Why};
use super::shape::Shape;
use super::statements::Statement;

/// What a name costs beside its text, in bytes.
const NAME_BYTES: usize = 128;

/// A client's prepared statement.
#[derive(Debug, Clone)]
pub struct NamedStatement {
    /// What the client has prepared.
    pub statement: Rc<Statement>,
    /// The catalogue's count of changes when the client prepared it: what servers have prepared
    /// earlier may have another result.
    pub since: u64,
    /// What its parameters and its result are, as far as a server has said.
    pub shape: Shape,
}

/// How much a client may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Statements with a name.
    pub count: usize,
    /// Bytes of their text.
    pub bytes: usize,
}

/// What a name stands for.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct Slot {
    named: Option<NamedStatement>,
    /// The number of its last change.
    last: u64,
}

/// A change of a name that is not answered, or may still have to be undone.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Change {
    name: Box<[u8]>,
    former: Option<NamedStatement>,
    /// The number of the change of the same name before it.
    before: u64,
    /// The number of the one behind it.
    next: u64,
    /// There is nothing to undo any more.
    is_undone: bool,
}

/// A client's prepared statements by its own names; the unnamed one has the empty name.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Names {
    unnamed: Slot,
    named: HashMap<Box<[u8]>, Slot>,
    changes: VecDeque<Change>,
    /// The number of the first of them; numbers are from 1.
    first: u64,
    /// How many of them were answered.
    heard: usize,
    /// The number of the first one of the round that is being sent.
    round: u64,
    /// Bytes of what has a name, and of what may come back.
    bytes: usize,
    /// None of them was prepared earlier, by the catalogue's count of changes.
    since: u64,
    /// The count for which that was looked at last, unless it may be later by now.
    looked_at: Option<u64>,
    /// Moves whenever a name may stand for something else.
    version: u64,
    limits: Limits,
}

impl Names {
    /// The names of a client that has prepared nothing.
    pub fn new(limits: Limits) -> Self {
        let (unnamed, named, changes) = Default::default();
        Self {
            unnamed,
            named,
            changes,
            first: 1,
            heard: 0,
            round: 1,
            bytes: 0,
            since: u64::MAX,
            looked_at: None,
            version: 0,
            limits,
        }
    }

    /// Moves whenever a name may stand for something else than before.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What a name stands for, if all that was sent so far is done.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&NamedStatement> {
        self.slot(name)?.named.as_ref()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.named.len() + usize::from(self.unnamed.named.is_some())
    }

    fn slot(&self, name: &[u8]) -> Option<&Slot> {
        if name.is_empty() { Some(&self.unnamed) } else { self.named.get(name) }
    }

    /// Whether all were prepared when the catalogue had changed so often, or later.
    #[inline]
    pub fn are_since(&mut self, changes: u64) -> bool {
        if self.since < changes && self.looked_at != Some(changes) {
            self.looked_at = Some(changes);
            let all = self.named.values().chain([&self.unnamed]);
            let since = all.filter_map(|slot| slot.named.as_ref()).map(|named| named.since);
            self.since = since.min().unwrap_or(u64::MAX);
        }
        self.since >= changes
    }

    /// What a name stands for is as it was when the catalogue has changed so often.
    pub fn holds(&mut self, name: &[u8], since: u64) {
        self.slot_mut(name, |slot| {
            if let Some(named) = &mut slot.named {
                named.since = since;
            }
        });
        self.looked_at = None;
    }

    /// Whether an earlier round has changed what it stands for, and was not answered.
    #[inline]
    pub fn is_unsure(&self, name: &[u8]) -> bool {
        let unheard = self.first + self.heard as u64;
        self.changes.len() > self.heard
            && self.slot(name).is_some_and(|slot| (unheard..self.round).contains(&slot.last))
    }

    /// Whether there is no change that may still be undone.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.changes.is_empty()
    }

    /// Why a statement that says this, of so many bytes, is not prepared under that name.
    pub fn refuses(&self, name: &[u8], bytes: usize) -> Option<Why> {
        if name.is_empty() {
            return None;
        }
        match self.named.get(name).and_then(|slot| slot.named.as_ref()) {
            Some(_) => Some(Why::Taken),
            None if self.named.len() >= self.limits.count => Some(Why::TooMany),
            None if self.bytes + NAME_BYTES + bytes > self.limits.bytes => Some(Why::TooLarge),
            None => None,
        }
    }

    /// What comes from now on belongs to another round.
    #[inline]
    pub fn next_round(&mut self) {
        self.round = self.first + self.changes.len() as u64;
    }

    /// A message that gives a name to a statement, or takes it away, is being sent.
    pub fn change(&mut self, name: &[u8], named: Option<NamedStatement>) {
        let number = self.first + self.changes.len() as u64;
        self.version += 1;
        self.looked_at = None;
        self.since = named.as_ref().map_or(self.since, |named| self.since.min(named.since));
        let added = size(name, named.as_ref());
        let slot = if name.is_empty() {
            &mut self.unnamed
        } else {
            self.bytes += added;
            self.named.entry(name.into()).or_default()
        };
        let before = std::mem::replace(&mut slot.last, number);
        let mut former = std::mem::replace(&mut slot.named, named);
        if name.is_empty() {
            // What may come back is bounded, too: past that it is forgotten.
            let size = size(name, former.as_ref());
            if self.bytes + size > self.limits.bytes {
                former = None;
            } else {
                self.bytes += size;
            }
        }
        if let Some(before) = self.at(before) {
            self.changes[before].next = number;
        }
        let change = Change { name: name.into(), former, before, next: 0, is_undone: false };
        self.changes.push_back(change);
    }

    /// A name stands for this from now on, and no answer is waited for.
    pub fn set(&mut self, name: &[u8], named: Option<NamedStatement>) {
        self.change(name, named);
        let Some(change) = self.changes.pop_back() else { return };
        self.bytes -= size(name, change.former.as_ref());
        // Nothing comes back, whatever becomes of the changes before it.
        let mut before = change.before;
        while let Some(at) = self.at(before) {
            before = self.changes[at].before;
            self.forget(at);
            self.changes[at].is_undone = true;
        }
        self.slot_mut(name, |slot| slot.last = 0);
        self.clean(name);
    }

    /// Whether there is an unnamed statement, or may be one.
    pub fn has_unnamed(&self) -> bool {
        self.unnamed.named.is_some() || self.at(self.unnamed.last).is_some()
    }

    /// A Query is being sent, which closes the unnamed statement (PostgreSQL documentation,
    /// "Message Flow", "Extended Query").
    #[inline]
    pub fn query(&mut self) {
        if self.has_unnamed() {
            self.set(b"", None);
        }
    }

    /// What became of the next change.
    #[inline]
    pub fn heard(&mut self, outcome: Outcome) {
        let Some(change) = self.changes.get(self.heard) else { return };
        let is_unnamed = change.name.is_empty();
        match outcome {
            Outcome::Done => {}
            // A Parse of the unnamed statement closes the one before it first, and may fail then
            // (`postgres.c`, `exec_parse_message`).
            Outcome::Failed if is_unnamed => {
                self.forget(self.heard);
                self.undo(self.heard);
            }
            Outcome::Failed | Outcome::LeftOut => self.undo(self.heard),
        }
        self.heard += 1;
    }

    /// The name that the next change is about.
    pub fn next_name(&self) -> &[u8] {
        self.changes.get(self.heard).map_or(b"", |change| &change.name)
    }

    /// What was heard will not be undone any more.
    #[inline]
    pub fn settle(&mut self) {
        for _ in 0..std::mem::take(&mut self.heard) {
            let Some(change) = self.changes.pop_front() else { return };
            self.first += 1;
            self.bytes -= size(&change.name, change.former.as_ref());
            self.clean(&change.name);
        }
    }

    /// The number that the next change will have.
    pub fn mark(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// Nothing of what was changed since then was done: it will be asked again.
    pub fn undo_since(&mut self, mark: u64) {
        while self.mark() > mark.max(self.first) {
            let last = self.changes.len() - 1;
            if let Some(before) = self.at(self.changes[last].before) {
                self.changes[before].next = 0;
            }
            self.undo(last);
            if let Some(change) = self.changes.pop_back() {
                self.slot_mut(&change.name, |slot| slot.last = change.before);
                self.clean(&change.name);
            }
        }
        self.heard = self.heard.min(self.changes.len());
        // What is asked again is the round that goes on, not an earlier one.
        self.round = self.round.min(self.mark());
    }

    /// Nothing that is not settled was done.
    pub fn undo_all(&mut self) {
        self.undo_since(self.first);
    }

    /// All statements with a name are gone, whatever becomes of the changes before.
    pub fn clear(&mut self) {
        self.version += 1;
        self.named.clear();
        for change in &mut self.changes {
            change.former = None;
            change.is_undone = true;
        }
        self.bytes = 0;
    }

    fn at(&self, number: u64) -> Option<usize> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (at < self.changes.len()).then_some(at)
    }

    fn slot_mut(&mut self, name: &[u8], with: impl FnOnce(&mut Slot)) {
        let slot = if name.is_empty() { Some(&mut self.unnamed) } else { self.named.get_mut(name) };
        if let Some(slot) = slot {
            with(slot);
        }
    }

    /// What was there before a change is forgotten: nothing will be there should it be undone.
    fn forget(&mut self, at: usize) {
        let former = self.changes[at].former.take();
        self.bytes -= size(&self.changes[at].name, former.as_ref());
    }

    /// Puts back what was there before a change.
    fn undo(&mut self, at: usize) {
        (self.since, self.looked_at) = (0, None);
        self.version += 1;
        let change = &mut self.changes[at];
        if std::mem::replace(&mut change.is_undone, true) {
            return;
        }
        let (next, name) = (change.next, std::mem::take(&mut change.name));
        let mut other = change.former.take();
        if let Some(next) = self.at(next) {
            // What this change has put there never was.
            std::mem::swap(&mut self.changes[next].former, &mut other);
            self.bytes -= size(&name, other.as_ref());
        } else {
            let restored = size(&name, other.as_ref());
            self.slot_mut(&name, |slot| std::mem::swap(&mut slot.named, &mut other));
            // The unnamed one counts only where it may come back.
            let gone = if name.is_empty() { restored } else { size(&name, other.as_ref()) };
            self.bytes -= gone;
        }
        self.changes[at].name = name;
    }

    /// Forgets a name that stands for nothing and will not come back.
    fn clean(&mut self, name: &[u8]) {
        let is_nothing = |slot: &Slot| slot.named.is_none() && self.at(slot.last).is_none();
        if !name.is_empty() && self.named.get(name).is_some_and(is_nothing) {
            self.named.remove(name);
        }
    }
}

/// What a statement counts for.
fn size(name: &[u8], named: Option<&NamedStatement>) -> usize {
    named.map_or(0, |named| NAME_BYTES + name.len() + named.statement.bytes())
}

/// The statement that a message is about. What closes one need not know it.
pub fn name_in(message: Frame<'_>) -> Option<&[u8]> {
    let body = message.body;
    match message.tag {
        tag::PARSE => Parse::read(body).ok().map(|parse| parse.name),
        tag::BIND => Bind::read(body).ok().map(|bind| bind.statement),
        tag::DESCRIBE => match Target::of_describe(body).ok()? {
            Target::Statement(name) => Some(name),
            Target::Portal(_) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
impl Names {
    /// All that counts for what follows, by numbers that do not depend on what came before.
    pub fn fingerprint(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash as _;
        let number =
            |named: &Option<NamedStatement>| named.as_ref().map(|named| named.statement.number);
        let age = |change: u64| change.checked_sub(self.first);
        let mut slots: Vec<_> = self.named.iter().collect();
        slots.sort_by_key(|(name, _)| *name);
        for (name, slot) in slots {
            (name, number(&slot.named), age(slot.last)).hash(hasher);
        }
        (number(&self.unnamed.named), age(self.unnamed.last)).hash(hasher);
        for change in &self.changes {
            let (before, next) = (age(change.before), age(change.next));
            (&change.name, number(&change.former), before, next, change.is_undone).hash(hasher);
        }
        (self.heard, age(self.round), self.bytes).hash(hasher);
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
