//! What a client does within a transaction.

use rand::Rng;

use super::actor::{ActResult, Actor};
use super::acts::set;
use super::model::{NAMES, Session};

/// An open transaction: what returns with a rollback, and the rows that are there so far.
struct OpenTransaction {
    start: Session,
    rows: Vec<u64>,
    savepoint: Option<(Session, usize)>,
    failed: bool,
}

impl Actor {
    /// A transaction with some statements, to one of its ends.
    pub(super) fn transaction(&mut self) -> ActResult {
        let (begin, tag) = match self.chance.random_range(0..4) {
            0 => ("START TRANSACTION", "START TRANSACTION"),
            1 => ("BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN"),
            _ => ("BEGIN", "BEGIN"),
        };
        self.run(begin, tag, 'T')?;
        let mut open = self.opened();
        for _ in 0..self.chance.random_range(0..7) {
            if open.failed {
                self.fail("SELECT 1", "25P02", 'E')?;
            } else {
                self.step(&mut open)?;
            }
            if open.failed && open.savepoint.is_some() && self.one_in(2) {
                self.back_to_savepoint(&mut open)?;
            }
        }
        self.end(open)
    }

    fn opened(&self) -> OpenTransaction {
        OpenTransaction {
            start: self.session.clone(),
            rows: Vec::new(),
            savepoint: None,
            failed: false,
        }
    }

    fn step(&mut self, open: &mut OpenTransaction) -> ActResult {
        let (setting, value) = self.setting();
        match self.chance.random_range(0..14) {
            0..3 => {
                let row = self.ledger.next();
                let insert = format!("INSERT INTO ledger VALUES ({}, {row})", self.number);
                self.run(&insert, "INSERT 0 1", 'T')?;
                open.rows.push(row);
            }
            3..5 => {
                let local = self.one_in(2);
                self.run(&set(setting, &value, local), "SET", 'T')?;
                self.session.set(setting, &value, local);
            }
            5 => {
                self.run(&format!("RESET {}", NAMES[setting]), "RESET", 'T')?;
                self.session.reset(setting);
            }
            6 => {
                self.run("SAVEPOINT s", "SAVEPOINT", 'T')?;
                open.savepoint = Some((self.session.clone(), open.rows.len()));
            }
            7 if open.savepoint.is_some() => self.back_to_savepoint(open)?,
            8 => {
                self.fail("SELECT 1 / 0", "22012", 'E')?;
                open.failed = true;
                return Ok(());
            }
            9 => self.count(open)?,
            10 => {
                let sql = "DECLARE c CURSOR FOR SELECT generate_series(1, 9)";
                // Within a savepoint that is rolled back it would go; without, there may be one.
                self.run(sql, "DECLARE CURSOR", 'T')?;
                let fetched = self.run("FETCH 4 FROM c", "FETCH 4", 'T')?;
                self.must("a cursor's rows", fetched.rows.len(), 4)?;
                self.run("CLOSE c", "CLOSE CURSOR", 'T')?;
            }
            11 | 12 => {
                self.prepared(open)?;
                if open.failed {
                    return Ok(());
                }
            }
            _ => {}
        }
        self.look('T')
    }

    /// Prepared statements, which know of no transaction.
    fn prepared(&mut self, open: &mut OpenTransaction) -> ActResult {
        let name = self.name();
        match self.session.prepared.get(&name).copied() {
            None => self.prepare(name, 'T'),
            Some(_) if self.one_in(3) => self.deallocate(&name, 'T'),
            Some(_) if self.one_in(3) => {
                open.failed = true;
                self.prepare_again(&name, 'E')
            }
            Some(prepared) => self.execute(&name, prepared, 'T'),
        }
    }

    fn back_to_savepoint(&mut self, open: &mut OpenTransaction) -> ActResult {
        let Some((session, rows)) = open.savepoint.clone() else { return Ok(()) };
        self.run("ROLLBACK TO SAVEPOINT s", "ROLLBACK", 'T')?;
        self.session.roll_back(&session);
        open.rows.truncate(rows);
        open.failed = false;
        self.look('T')
    }

    /// Its own rows, those of this transaction among them.
    fn count(&mut self, open: &OpenTransaction) -> ActResult {
        let known = self.ledger.known(self.number);
        let reply = self.ask(&format!("SELECT count(*) FROM ledger WHERE {known}"))?;
        let rows = (self.ledger.there.len() + open.rows.len()).to_string();
        self.must("rows of its own", reply.value(), Some(&*rows))
    }

    fn end(&mut self, open: OpenTransaction) -> ActResult {
        match self.chance.random_range(0..10) {
            0..3 => {
                self.run("ROLLBACK", "ROLLBACK", 'I')?;
                self.session.roll_back(&open.start);
            }
            3 => {
                let tag = if open.failed { "ROLLBACK" } else { "COMMIT" };
                self.run("COMMIT AND CHAIN", tag, 'T')?;
                self.ended(open);
                let chained = self.opened();
                self.look('T')?;
                return self.end(chained);
            }
            4 => {
                self.note("COMMIT, and away");
                self.send(b"Q\0\0\0\x0bCOMMIT\0")?;
                if !open.failed {
                    self.ledger.perhaps.extend(open.rows);
                }
                self.reconnect()?;
            }
            _ => {
                let tag = if open.failed { "ROLLBACK" } else { "COMMIT" };
                self.run("COMMIT", tag, 'I')?;
                self.ended(open);
            }
        }
        self.look('I')
    }

    fn ended(&mut self, open: OpenTransaction) {
        if open.failed {
            self.session.roll_back(&open.start);
        } else {
            self.session.commit();
            self.ledger.there.extend(open.rows);
        }
    }
}
