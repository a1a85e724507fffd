//! The numbers of places, each of one account. A number that was given up is never given again.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use super::accounts::Account;
use crate::server::ConnectionProfile;

/// So many bits of a number say where its place is kept; the others tell it from those that were
/// kept there before.
const INDEX_BITS: u32 = usize::BITS / 2;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;

/// A place, and whose it is.
#[derive(Debug)]
struct PlaceEntry {
    number: usize,
    place: ConnectionProfile,
    account: Weak<Account>,
}

/// All places of a worker.
#[derive(Debug, Default)]
pub(super) struct Places {
    all: RefCell<Vec<Option<PlaceEntry>>>,
    free: RefCell<Vec<usize>>,
    /// How often a place was kept where another had been.
    again: Cell<usize>,
}

impl Places {
    /// The number of a place of an account.
    #[inline]
    pub(super) fn number(&self, account: &Rc<Account>, place: ConnectionProfile) -> usize {
        let known = account.numbers.borrow().iter().find(|(of, _)| *of == place).copied();
        known.map_or_else(|| self.add(account, place), |(_, number)| number)
    }

    #[cold]
    fn add(&self, account: &Rc<Account>, place: ConnectionProfile) -> usize {
        let mut all = self.all.borrow_mut();
        let number = match self.free.borrow_mut().pop() {
            Some(index) => {
                self.again.set(self.again.get() + 1);
                self.again.get() << INDEX_BITS | index
            }
            None => {
                all.push(None);
                all.len() - 1
            }
        };
        let kept = PlaceEntry { number, place, account: Rc::downgrade(account) };
        if let Some(at) = all.get_mut(number & INDEX_MASK) {
            *at = Some(kept);
        }
        account.numbers.borrow_mut().push((place, number));
        number
    }

    #[inline]
    fn with<T>(&self, number: usize, what: impl FnOnce(&PlaceEntry) -> T) -> Option<T> {
        let all = self.all.borrow();
        let kept = all.get(number & INDEX_MASK)?.as_ref()?;
        (kept.number == number).then(|| what(kept))
    }

    /// What a number stands for.
    #[inline]
    pub(super) fn place(&self, number: usize) -> Option<ConnectionProfile> {
        self.with(number, |kept| kept.place)
    }

    /// Whose a place is.
    pub(super) fn account(&self, number: usize) -> Option<Rc<Account>> {
        self.with(number, |kept| kept.account.upgrade())?
    }

    /// Whether a client has the account of a place.
    pub(super) fn is_used(&self, number: usize) -> bool {
        // It is kept in one place besides.
        self.with(number, |kept| kept.account.strong_count() > 1) == Some(true)
    }

    /// Whether two are of one account.
    pub(super) fn are_of_one(&self, number: usize, other: usize) -> bool {
        let account = |number| self.with(number, |kept| kept.account.as_ptr());
        account(number).is_some() && account(number) == account(other)
    }

    /// Those that are such.
    pub(super) fn those(&self, is_such: impl Fn(&ConnectionProfile) -> bool) -> Vec<usize> {
        let all = self.all.borrow();
        let those = all.iter().flatten().filter(|kept| is_such(&kept.place));
        those.map(|kept| kept.number).collect()
    }

    /// Gives up all places of an account.
    pub(super) fn give_up(&self, account: &Account) {
        for (_, number) in account.numbers.take() {
            if self.place(number).is_some()
                && let Some(kept) = self.all.borrow_mut().get_mut(number & INDEX_MASK)
            {
                *kept = None;
                self.free.borrow_mut().push(number & INDEX_MASK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::Accounts;
    use super::*;
    use crate::server::{Credentials, Login};

    #[test]
    fn a_number_that_was_given_up_stands_for_nothing_although_its_room_is_used_again() {
        let (accounts, places) = (Accounts::default(), Places::default());
        let account = |password: &[u8]| accounts.of(&Login::As(Credentials::new(None, password)));
        let (ann, bob) = (account(b"ann"), account(b"bob"));
        let second = ConnectionProfile { database: 1, ..ConnectionProfile::FIRST };
        let numbers = [&ann, &bob].map(|of| places.number(of, ConnectionProfile::FIRST));
        let other = places.number(&ann, second);
        assert_eq!(places.number(&ann, ConnectionProfile::FIRST), numbers[0]);
        assert!(places.is_used(numbers[0]));
        assert!(places.are_of_one(numbers[0], other) && !places.are_of_one(numbers[0], numbers[1]));
        assert_eq!(places.account(other).unwrap().id(), ann.id());
        places.give_up(&ann);
        assert_eq!((places.place(numbers[0]), places.place(other)), (None, None));
        for n in 0..100 {
            let carl = account(&[n]);
            let number = places.number(&carl, second);
            assert_eq!(places.account(number).unwrap().id(), carl.id());
            assert!(![numbers[0], numbers[1], other].contains(&number));
            assert!(places.account(numbers[0]).is_none() && places.account(other).is_none());
            places.give_up(&carl);
        }
        assert_eq!(places.all.borrow().len(), 3, "room is used again");
        assert_eq!(places.account(numbers[1]).unwrap().id(), bob.id());
        drop(bob);
        assert!(places.account(numbers[1]).is_some() && !places.is_used(numbers[1]));
    }
}
