//! Checks of passwords, which take some ten milliseconds of a core and 19 MiB each: on few threads,
//! each with one piece of memory for all its checks, and in turn for each user of the file. Names
//! that are not in the file have one turn together, so that a user who comes for the first time
//! does not wait behind any number of strangers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::Output;
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash, Version};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Threads, and so passwords that are checked at once: guessing cannot starve the rest.
const THREADS_MAX: usize = 2;
/// After so long without anything to check a thread ends, and gives its memory back.
const IDLE: Duration = Duration::from_secs(10);
/// The longest salt there is (PHC string format).
const SALT_MAX: usize = 64;

/// A password that is to be checked.
pub struct Check {
    /// The user of the file whose name was given; `None` for all other names.
    pub user: Option<Arc<str>>,
    /// Whether it comes from where failures came from: others go first.
    pub suspect: bool,
    /// Stands for name and password; the same ones are checked once for all who give them.
    pub digest: [u8; 32],
    /// What the password is checked against (PHC string format).
    pub hash: Arc<str>,
    /// The password that the client sent.
    pub password: String,
}

/// What is the same check, whoever waits for it.
type Key = ([u8; 32], Arc<str>);

/// The threads, and what waits for them. Clones are the same.
#[derive(Clone, Default)]
pub struct Passwords(Arc<PasswordPool>);

#[derive(Default)]
struct PasswordPool {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Those who have something to check, in the order of their turns.
    turns: VecDeque<Option<Arc<str>>>,
    lines: HashMap<Option<Arc<str>>, Line>,
    /// Who waits for a check, before and while it is made.
    waiting: HashMap<Key, Vec<oneshot::Sender<bool>>>,
    /// Checks of strangers that came, and those that are done with.
    strangers: u64,
    strangers_done: u64,
    threads: usize,
    idle: usize,
}

/// What waits for one user's turns.
#[derive(Default)]
struct Line {
    first: VecDeque<Check>,
    suspect: VecDeque<Check>,
}

impl Passwords {
    /// Whether a password is the right one; `None` where that cannot be found out.
    pub async fn check(&self, check: Check) -> Option<bool> {
        let (answer, heard) = oneshot::channel();
        self.put(check, answer);
        heard.await.ok()
    }

    /// How many checks of strangers have come so far, and how many are done with.
    pub fn strangers(&self) -> (u64, u64) {
        let queue = self.queue();
        (queue.strangers, queue.strangers_done)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock()
    }

    fn put(&self, check: Check, answer: oneshot::Sender<bool>) {
        let mut queue = self.queue();
        queue.put(check, answer);
        if queue.idle > 0 {
            self.0.more.notify_one();
        } else if queue.threads < THREADS_MAX {
            let shared = Arc::clone(&self.0);
            let name = "password".to_owned();
            let started = std::thread::Builder::new().name(name).spawn(move || shared.run());
            match started {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    tracing::error!(%error, "no thread to check passwords on");
                    *queue = Queue::default();
                }
                Err(_) => {}
            }
        }
    }
}

impl PasswordPool {
    /// A thread's work. It is not the worker's that has started it, which asks for short slices.
    fn run(&self) {
        sched::set_slice(sched::Slice::Usual);
        let mut memory = Vec::new();
        while let Some(check) = self.next() {
            let good = verify(&check, &mut memory);
            let mut queue = self.queue.lock();
            queue.done(check, good);
        }
    }

    /// Waits for the next check; `None` once there was none for long enough.
    fn next(&self) -> Option<Check> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(check) = queue.next() {
                return Some(check);
            }
            queue.idle += 1;
            let timeout = self.more.wait_for(&mut queue, IDLE);
            queue.idle -= 1;
            if timeout.timed_out() && queue.turns.is_empty() {
                queue.threads -= 1;
                return None;
            }
        }
    }
}

impl Queue {
    fn put(&mut self, check: Check, answer: oneshot::Sender<bool>) {
        let key = (check.digest, Arc::clone(&check.hash));
        let waiting = self.waiting.entry(key).or_default();
        waiting.push(answer);
        if waiting.len() > 1 {
            return;
        }
        self.strangers += u64::from(check.user.is_none());
        let line = self.lines.entry(check.user.clone()).or_default();
        if line.first.is_empty() && line.suspect.is_empty() {
            self.turns.push_back(check.user.clone());
        }
        if check.suspect { line.suspect.push_back(check) } else { line.first.push_back(check) }
    }

    /// The next check that somebody still waits for.
    fn next(&mut self) -> Option<Check> {
        loop {
            let user = self.turns.pop_front()?;
            let line = self.lines.get_mut(&user)?;
            let check = line.first.pop_front().or_else(|| line.suspect.pop_front());
            if line.first.is_empty() && line.suspect.is_empty() {
                self.lines.remove(&user);
            } else {
                self.turns.push_back(user);
            }
            let check = check?;
            let key = (check.digest, Arc::clone(&check.hash));
            if self.waiting.get(&key).is_some_and(|all| !all.iter().all(oneshot::Sender::is_closed))
            {
                return Some(check);
            }
            self.done(check, false);
        }
    }

    fn done(&mut self, check: Check, good: bool) {
        self.strangers_done += u64::from(check.user.is_none());
        let waited = self.waiting.remove(&(check.digest, check.hash));
        for answer in waited.into_iter().flatten() {
            // Whoever has gone needs none.
            let _ = answer.send(good);
        }
    }
}

/// As [`argon2::PasswordVerifier`] does it, with memory that is there already.
fn verify(check: &Check, memory: &mut Vec<Block>) -> bool {
    try_verify(check, memory).unwrap_or(false)
}

/// `None` where the hash is none, which is refused when the configuration is read.
fn try_verify(check: &Check, memory: &mut Vec<Block>) -> Option<bool> {
    let hash = PasswordHash::new(&check.hash).ok()?;
    let algorithm = Algorithm::try_from(hash.algorithm).ok()?;
    let version = hash.version.map_or(Ok(Version::default()), Version::try_from).ok()?;
    let params = Params::try_from(&hash).ok()?;
    let (mut salt, expected) = ([0; SALT_MAX], hash.hash?);
    let salt = hash.salt?.decode_b64(&mut salt).ok()?;
    let blocks = params.block_count();
    memory.resize(blocks.max(memory.len()), Block::default());
    let memory = memory.get_mut(..blocks)?;
    let mut out = vec![0; expected.len()];
    let password = check.password.as_bytes();
    let argon2 = Argon2::new(algorithm, version, params);
    argon2.hash_password_into_with_memory(password, salt, &mut out, memory).ok()?;
    // In the same time wherever they differ.
    Some(Output::new(&out).ok()? == expected)
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::{PasswordHasher, SaltString};

    use super::*;

    fn check(user: Option<&str>, suspect: bool, number: u8) -> Check {
        let (user, hash) = (user.map(Into::into), "".into());
        Check { user, suspect, digest: [number; 32], hash, password: String::new() }
    }

    #[test]
    fn users_have_their_turns_and_strangers_have_one() {
        let mut queue = Queue::default();
        let mut heard = Vec::new();
        let mut put = |queue: &mut Queue, user, suspect, number| {
            let (answer, hears) = oneshot::channel();
            heard.push(hears);
            queue.put(check(user, suspect, number), answer);
        };
        for number in 0..100 {
            put(&mut queue, None, false, number);
        }
        for number in 100..110 {
            put(&mut queue, Some("guessed"), true, number);
        }
        put(&mut queue, Some("guessed"), false, 120);
        put(&mut queue, Some("ann"), false, 121);
        assert_eq!((queue.strangers, queue.strangers_done), (100, 0));
        let order: Vec<u8> = (0..6).map(|_| queue.next().unwrap().digest[0]).collect();
        assert_eq!(order, [0, 120, 121, 1, 100, 2]);
        // Those who have gone cost nothing.
        drop(heard);
        assert!(queue.next().is_none());
        assert_eq!(queue.strangers_done, 97, "all but those that were given out");
        assert!(queue.lines.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn the_same_guess_is_checked_once() {
        let mut queue = Queue::default();
        let mut heard: Vec<_> = (0..10)
            .map(|_| {
                let (answer, hears) = oneshot::channel();
                queue.put(check(Some("ann"), false, 1), answer);
                hears
            })
            .collect();
        let one = queue.next().unwrap();
        assert!(queue.next().is_none());
        queue.done(one, true);
        assert!(heard.iter_mut().all(|hears| hears.try_recv() == Ok(true)));
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn memory_is_used_again_for_passwords_of_any_cost() {
        let mut memory = Vec::new();
        for (cost, password) in [(64, "a"), (8, "b"), (128, "c"), (64, "d")] {
            let salt = SaltString::encode_b64(b"saltsaltsalt").unwrap();
            let params = Params::new(cost, 2, 1, None).unwrap();
            let argon2 = Argon2::new(Algorithm::default(), Version::default(), params);
            let hash = argon2.hash_password(password.as_bytes(), &salt).unwrap().to_string();
            let with = |password: &str| Check {
                hash: hash.as_str().into(),
                password: password.to_owned(),
                ..check(None, false, 0)
            };
            assert!(verify(&with(password), &mut memory));
            assert!(!verify(&with("other"), &mut memory));
        }
        assert_eq!(memory.len(), 128);
        assert!(!verify(&check(None, false, 0), &mut memory), "no hash at all");
    }
}
