//! Transfers while server processes are ended: what was told as committed is there, what was told
//! as failed is not.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::postgres::{Cluster, MessageClient};

use super::said::{StepReply, hear};
use super::step::{Statement, Step};

/// Accounts, and what all of them have together.
pub const ACCOUNTS: u64 = 40;
/// What each has at first.
const BALANCE: i64 = 1_000;
/// A connection broke while something that may write was under way.
const NOT_KNOWN: &str = "08007";

/// What a client was told of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferOutcome {
    Committed,
    Failed,
    NotKnown,
}

/// What was told of each transfer, by its number.
pub type Book = BTreeMap<u64, (TransferOutcome, String)>;

pub fn open(cluster: &Cluster) {
    cluster.sql(&format!(
        "CREATE ROLE teller LOGIN;
         CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL);
         CREATE TABLE moved (id int8 PRIMARY KEY, kind int);
         INSERT INTO account SELECT n, {BALANCE} FROM generate_series(1, {ACCOUNTS}) n;
         GRANT ALL ON account, moved TO teller"
    ));
}

/// Moves sums until it is told to stop.
///
/// # Errors
/// Something is said that can't be.
pub fn moves(
    address: SocketAddr,
    teller: u64,
    seed: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<Book, String> {
    let mut chance = StdRng::seed_from_u64(seed.wrapping_add(teller));
    let mut book = Book::new();
    let mut n = teller << 32;
    while !stop.load(Ordering::Relaxed) {
        let parameters = [("user", "teller"), ("database", "postgres")];
        let Ok(mut peer) = MessageClient::connect(address, &parameters) else { continue };
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            let (told, said) = one(&mut peer, n, &mut chance)?;
            if told == TransferOutcome::Committed {
                done.fetch_add(1, Ordering::Relaxed);
            }
            let is_over = said.closed;
            book.insert(n, (told, said.brief()));
            if is_over {
                break;
            }
        }
    }
    Ok(book)
}

/// One transfer, in one of the ways in which programs make them.
fn one(
    peer: &mut MessageClient,
    n: u64,
    chance: &mut StdRng,
) -> Result<(TransferOutcome, StepReply), String> {
    let (a, b) = (chance.random_range(1..ACCOUNTS), chance.random_range(1..=ACCOUNTS));
    // In one order, so that none waits for another that waits for it.
    let (a, b) = if a < b { (a, b) } else { (b, a + 1) };
    let way = chance.random_range(0..4);
    let statements = match way {
        0 => vec![format!("INSERT INTO moved VALUES ({n}, 0)")],
        _ => vec![
            "BEGIN".to_owned(),
            format!("UPDATE account SET balance = balance - 1 WHERE id = {a}"),
            format!("UPDATE account SET balance = balance + 1 WHERE id = {b}"),
            format!("INSERT INTO moved VALUES ({n}, {way})"),
            "COMMIT".to_owned(),
        ],
    };
    let last = if way == 0 { "INSERT 0 1" } else { "COMMIT" };
    let statements: Vec<_> = statements.into_iter().map(Statement::new).collect();
    let steps = match way {
        0 | 1 => statements.iter().map(|statement| one_of(|step| step.query(statement))).collect(),
        2 => vec![one_of(|step| step.several(&statements))],
        _ => vec![one_of(|step| step.unnamed(&statements, false))],
    };
    let count = steps.len();
    for (at, step) in steps.iter().enumerate() {
        let sent = peer.send(&step.bytes);
        let said = hear(peer, 1).map_err(|error| format!("{:?}: {error}", step.what))?;
        let is_last = at + 1 == count;
        let told = told(&said, last, is_last && sent.is_ok());
        let goes_on = !is_last && said.error().is_none() && !said.closed;
        if !goes_on {
            end(peer, &said)?;
            return Ok((told, said));
        }
    }
    Err("a transfer has no steps".to_owned())
}

fn one_of(put: impl FnOnce(&mut Step)) -> Step {
    let mut step = Step::default();
    put(&mut step);
    step
}

/// What the answer says of the transfer whose last statement it may be about.
fn told(said: &StepReply, last: &str, may_commit: bool) -> TransferOutcome {
    let lines = || said.rounds.iter().flatten();
    if may_commit && lines().any(|line| line.tag == b'C' && line.text == last) {
        return TransferOutcome::Committed;
    }
    match said.error() {
        Some(line) if line.code == NOT_KNOWN && may_commit => TransferOutcome::NotKnown,
        Some(_) => TransferOutcome::Failed,
        None if may_commit && said.closed => TransferOutcome::NotKnown,
        None => TransferOutcome::Failed,
    }
}

/// Whatever has failed is ended.
fn end(peer: &mut MessageClient, said: &StepReply) -> Result<(), String> {
    if said.closed || said.status == Some(b'I') {
        return Ok(());
    }
    let step = one_of(|step| step.query(&Statement::new("ROLLBACK")));
    let _ = peer.send(&step.bytes);
    hear(peer, 1).map(drop).map_err(|error| error.to_string())
}

/// Holds what is there against what was told.
///
/// # Errors
/// It is not the same.
pub fn check(cluster: &Cluster, book: &Book) -> Result<(), String> {
    let there: BTreeMap<u64, ()> = cluster
        .sql("SELECT id FROM moved")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|id| Some((id.parse().ok()?, ())))
        .collect();
    let mut wrong = Vec::new();
    for (n, (told, said)) in book {
        let is_there = there.contains_key(n);
        match told {
            TransferOutcome::Committed if !is_there => wrong.push(format!("{n} is lost: {said}")),
            TransferOutcome::Failed if is_there => {
                wrong.push(format!("{n} was told to have failed: {said}"))
            }
            _ => {}
        }
    }
    let sum = cluster.value("SELECT sum(balance) FROM account");
    if sum != (BALANCE * ACCOUNTS as i64).to_string() {
        wrong.push(format!("all accounts together have {sum}"));
    }
    let first = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} are wrong:\n{first}", wrong.len())) }
}
