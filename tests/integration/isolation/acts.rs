//! What a client does, outside a transaction: each act leaves it where the next can begin.

use std::time::Duration;

use rand::Rng;
use wire::postgres::frontend::{
    Target, put_bind, put_close, put_copy_fail, put_describe, put_execute, put_flush, put_parse,
    put_query, put_sync,
};

use super::actor::{ActResult, Actor, put_round, seen};
use super::model::NAMES;

/// The size of what is large, in bytes: more than Weir holds of a round.
pub const LARGE: usize = 100 * 1024;

impl Actor {
    pub fn act(&mut self) -> ActResult {
        match self.chance.random_range(0..100) {
            0..25 => self.reads(),
            25..40 => self.settings(),
            40..57 => self.transaction(),
            57..65 => self.statements(),
            65..72 => self.rounds_with_errors(),
            72..77 => self.copy_in(),
            77..80 => self.copy_out(),
            80..84 => self.large(),
            84..87 => self.temporary(),
            87..89 => self.roles(),
            89..91 => self.cancelled_sleep(),
            91..92 => self.cancelled_read(),
            92..94 => self.streamed(),
            94..96 => self.fail("SELECT 1 / 0", "22012", 'I'),
            _ => self.vanish(),
        }
    }

    /// Some reads, all sent before the first is answered.
    fn reads(&mut self) -> ActResult {
        let count = self.chance.random_range(1..9);
        let mut out = Vec::new();
        let mut asked = Vec::new();
        for _ in 0..count {
            let (n, sql) = self.probe();
            match self.chance.random_range(0..3) {
                0 => put_query(&mut out, sql.as_bytes()),
                1 => put_round(&mut out, &sql, &[]),
                _ => {
                    let sql = format!("SELECT $1::int, {}", seen());
                    put_round(&mut out, &sql, &[&n.to_string()]);
                }
            }
            asked.push(n);
        }
        self.note(format!("{count} reads at once"));
        self.send(&out)?;
        for n in asked {
            let reply = self.reply()?;
            self.check(n, &reply, 'I')?;
        }
        Ok(())
    }

    fn settings(&mut self) -> ActResult {
        let (setting, value) = self.setting();
        match self.chance.random_range(0..10) {
            0 => {
                self.run("DISCARD ALL", "DISCARD ALL", 'I')?;
                self.session.discard();
            }
            1 => {
                self.run("RESET ALL", "RESET", 'I')?;
                self.session.reset_all();
            }
            2 | 3 => {
                self.run(&format!("RESET {}", NAMES[setting]), "RESET", 'I')?;
                self.session.reset(setting);
            }
            4 => self.fail("SET TimeZone = 'Nowhere/At all'", "22023", 'I')?,
            _ => {
                self.run(&set(setting, &value, false), "SET", 'I')?;
                self.session.set(setting, &value, false);
            }
        }
        self.look('I')
    }

    /// Prepared statements with names that all clients use, each with a text of its own.
    fn statements(&mut self) -> ActResult {
        let name = self.name();
        match self.session.prepared.get(&name).copied() {
            _ if self.one_in(20) => {
                self.run("DEALLOCATE ALL", "DEALLOCATE ALL", 'I')?;
                self.session.prepared.clear();
                Ok(())
            }
            None => self.prepare(name, 'I'),
            Some(_) if self.one_in(5) => self.close(name),
            Some(_) if self.one_in(5) => self.deallocate(&name, 'I'),
            Some(_) if self.one_in(5) => self.prepare_again(&name, 'I'),
            Some(prepared) => self.execute(&name, prepared, 'I'),
        }
    }

    /// A name of a statement.
    pub(super) fn name(&mut self) -> String {
        format!("s{}", self.chance.random_range(0..3))
    }

    pub(super) fn prepare(&mut self, name: String, status: char) -> ActResult {
        let (mut out, n) = (Vec::new(), self.unique());
        self.note(format!("Parse {name} {n}"));
        let sql = format!("SELECT $1::int8 + {n}, {}", seen());
        put_parse(&mut out, name.as_bytes(), sql.as_bytes(), &[]);
        put_sync(&mut out);
        self.send(&out)?;
        let reply = self.reply()?;
        self.must("Parse", (reply.error, reply.status), (None, status))?;
        self.session.prepared.insert(name, n);
        Ok(())
    }

    /// A name that is taken, with rounds behind it that were sent along.
    pub(super) fn prepare_again(&mut self, name: &str, status: char) -> ActResult {
        self.note(format!("Parse {name} again"));
        let mut out = Vec::new();
        put_parse(&mut out, b"", b"SELECT 1", &[]);
        put_parse(&mut out, name.as_bytes(), b"SELECT 'another'", &[]);
        put_close(&mut out, Target::Statement(name.as_bytes()));
        put_parse(&mut out, b"skipped", b"SELECT 1", &[]);
        put_sync(&mut out);
        put_describe(&mut out, Target::Statement(b"skipped"));
        put_sync(&mut out);
        self.send(&out)?;
        let reply = self.reply()?;
        self.must("Parse", (reply.error.as_deref(), reply.status), (Some("42P05"), status))?;
        let reply = self.reply()?;
        self.must("Describe", (reply.error.as_deref(), reply.status), (Some("26000"), status))
    }

    pub(super) fn deallocate(&mut self, name: &str, status: char) -> ActResult {
        self.run(&format!("DEALLOCATE {name}"), "DEALLOCATE", status)?;
        self.session.prepared.remove(name);
        Ok(())
    }

    pub(super) fn execute(&mut self, name: &str, prepared: u32, status: char) -> ActResult {
        let (times, mut out) = (self.chance.random_range(1..5), Vec::new());
        self.note(format!("Bind {name} {times} times"));
        for of in 0..times {
            let of = of.to_string();
            put_bind(&mut out, b"", name.as_bytes(), &[Some(of.as_bytes())]);
            put_execute(&mut out, b"", 0);
            put_sync(&mut out);
        }
        self.send(&out)?;
        for of in 0..times {
            let reply = self.reply()?;
            self.check(prepared + of, &reply, status)?;
        }
        Ok(())
    }

    fn close(&mut self, name: String) -> ActResult {
        self.note(format!("Close {name}, and Bind"));
        let mut out = Vec::new();
        put_close(&mut out, Target::Statement(name.as_bytes()));
        put_sync(&mut out);
        put_bind(&mut out, b"", name.as_bytes(), &[Some(b"1")]);
        put_execute(&mut out, b"", 0);
        put_sync(&mut out);
        self.send(&out)?;
        let reply = self.reply()?;
        self.must("Close", (reply.error, reply.status), (None, 'I'))?;
        let reply = self.reply()?;
        self.must("Bind", reply.error.as_deref(), Some("26000"))?;
        self.session.prepared.remove(&name);
        Ok(())
    }

    /// Rounds of which some fail in their midst: what came before is answered, what follows is not
    /// run, what was written is undone, and the next round is none of it.
    fn rounds_with_errors(&mut self) -> ActResult {
        let (n, probe) = self.probe();
        let (m, after) = self.probe();
        let row = self.ledger.next();
        let insert = format!("INSERT INTO ledger VALUES ({}, {row})", self.number);
        let mut out = Vec::new();
        let one = |out: &mut Vec<u8>, sql: &str, values: &[Option<&[u8]>]| {
            put_parse(out, b"", sql.as_bytes(), &[]);
            put_bind(out, b"", b"", values);
            put_execute(out, b"", 0);
        };
        one(&mut out, &probe, &[]);
        one(&mut out, &insert, &[]);
        let code = match self.chance.random_range(0..4) {
            0 => {
                put_parse(&mut out, b"", format!("SELECT nothing_{n}").as_bytes(), &[]);
                "42703"
            }
            1 => {
                one(&mut out, "SELECT 1 / $1::int", &[Some(b"0")]);
                "22012"
            }
            2 => {
                put_bind(&mut out, b"", b"nobody's", &[]);
                "26000"
            }
            _ => "",
        };
        put_parse(&mut out, b"later", format!("SELECT {m}, {}", seen()).as_bytes(), &[]);
        one(&mut out, "SELECT 1", &[]);
        put_sync(&mut out);
        put_bind(&mut out, b"", b"later", &[]);
        put_execute(&mut out, b"", 0);
        put_close(&mut out, Target::Statement(b"later"));
        put_sync(&mut out);
        put_query(&mut out, after.as_bytes());
        self.note(format!("a round with the error {code:?}, one that needs it, and {m}"));
        self.send(&out)?;
        let mut first = self.reply()?;
        let error = first.error.take();
        let failed = !code.is_empty();
        self.must("the error", error.as_deref(), Some(code).filter(|_| failed))?;
        if !failed {
            self.ledger.there.insert(row);
            self.must("what follows", first.rows.pop(), Some(vec![Some("1".to_owned())]))?;
        }
        self.check(n, &first, 'I')?;
        let second = self.reply()?;
        if failed {
            self.must("what needs it", second.error.as_deref(), Some("26000"))?;
        } else {
            self.check(m, &second, 'I')?;
        }
        let third = self.reply()?;
        self.check(m, &third, 'I')
    }

    fn copy_in(&mut self) -> ActResult {
        let rows: Vec<u64> =
            (0..self.chance.random_range(1..20)).map(|_| self.ledger.next()).collect();
        let (fails, at_once) = (self.one_in(4), self.one_in(2));
        self.note(format!("COPY of {} rows, fails {fails}, at once {at_once}", rows.len()));
        let (mut ask, mut data) = (Vec::new(), Vec::new());
        put_query(&mut ask, b"COPY ledger FROM STDIN");
        for row in &rows {
            put_copy_data(&mut data, &format!("{}\t{row}\n", self.number));
        }
        if fails {
            put_copy_fail(&mut data, b"not meant");
        } else {
            data.extend_from_slice(&[b'c', 0, 0, 0, 4]);
        }
        self.send(&ask)?;
        if at_once {
            self.send(&data)?;
        }
        let asked = self.reply()?;
        self.must("COPY", (asked.error, asked.status), (None, 'G'))?;
        if !at_once {
            self.send(&data)?;
        }
        let reply = self.reply()?;
        if fails {
            return self.must("CopyFail", reply.error.as_deref(), Some("57014"));
        }
        self.must("COPY", reply.tags, vec![format!("COPY {}", rows.len())])?;
        self.ledger.there.extend(rows);
        Ok(())
    }

    fn copy_out(&mut self) -> ActResult {
        let known = self.ledger.known(self.number);
        let sql = format!("COPY (SELECT n FROM ledger WHERE {known} ORDER BY n) TO STDOUT");
        let reply = self.ask(&sql)?;
        let rows: Vec<_> = self.ledger.there.iter().map(|n| format!("{n}\n")).collect();
        self.must("COPY", (reply.error, reply.status), (None, 'I'))?;
        self.must("what was copied", reply.copied, rows)
    }

    /// Rows, parameters and texts that are longer than what is held.
    fn large(&mut self) -> ActResult {
        let (n, mut out) = (self.unique(), Vec::new());
        let count = self.chance.random_range(1..5);
        let end = n.to_string();
        let wanted = match self.chance.random_range(0..3) {
            0 => {
                let sql = format!(
                    "SELECT repeat('x', {LARGE}) || {n}::text FROM generate_series(1, {count})"
                );
                let reply = self.ask(&sql)?;
                let tail: Vec<_> = reply
                    .rows
                    .iter()
                    .map(|row| row[0].as_ref().is_some_and(|x| x[LARGE..] == end))
                    .collect();
                return self.must("large rows", tail, vec![true; count]);
            }
            1 => {
                let value = "p".repeat(LARGE);
                put_round(&mut out, "SELECT right($1::text, 1) || $2::text", &[&value, &end]);
                format!("p{n}")
            }
            _ => {
                let sql = format!("SELECT right('{}', 1) || {n}::text", "q".repeat(LARGE));
                put_query(&mut out, sql.as_bytes());
                format!("q{n}")
            }
        };
        self.note(format!("a large question, {wanted}"));
        self.send(&out)?;
        let reply = self.reply()?;
        self.must("a large question", (&reply.error, reply.status), (&None, 'I'))?;
        self.must("a large question", reply.value(), Some(&*wanted))
    }

    /// A table that only this session may see, under a name that all clients use.
    fn temporary(&mut self) -> ActResult {
        match self.session.temporary {
            None => {
                self.run("CREATE TEMPORARY TABLE mine (n int8)", "CREATE TABLE", 'I')?;
                self.session.temporary = Some(0);
            }
            Some(rows) => {
                let insert = format!("INSERT INTO mine VALUES ({})", self.number);
                self.run(&insert, "INSERT 0 1", 'I')?;
                self.session.temporary = Some(rows + 1);
                let reply = self.ask("SELECT count(*), min(n), max(n) FROM mine")?;
                let number = Some(self.number.to_string());
                let wanted = vec![Some((rows + 1).to_string()), number.clone(), number];
                self.must("the temporary table", reply.rows, vec![wanted])?;
                if self.one_in(2) {
                    self.run("DISCARD ALL", "DISCARD ALL", 'I')?;
                    self.session.discard();
                    self.fail("SELECT count(*) FROM mine", "42P01", 'I')?;
                }
            }
        }
        self.look('I')
    }

    fn roles(&mut self) -> ActResult {
        self.run("SET ROLE actor", "SET", 'I')?;
        self.session.set_role(Some("actor"));
        self.look('I')?;
        if self.one_in(2) {
            self.run("RESET ROLE", "RESET", 'I')?;
            self.session.set_role(None);
        } else {
            self.run("DISCARD ALL", "DISCARD ALL", 'I')?;
            self.session.discard();
        }
        self.look('I')
    }

    /// Answers that are wanted before the round ends, and rows a few at a time.
    fn streamed(&mut self) -> ActResult {
        let (n, sql) = self.probe();
        self.note(format!("Flush, and rows by threes, {n}"));
        let mut out = Vec::new();
        put_parse(&mut out, b"", sql.as_bytes(), &[]);
        put_bind(&mut out, b"", b"", &[]);
        put_execute(&mut out, b"", 0);
        put_flush(&mut out);
        self.send(&out)?;
        if !self.peer.hears_within(Duration::from_secs(60)).map_err(|e| self.wrong(&e))? {
            return Err(self.wrong(&"a Flush has no effect"));
        }
        out.clear();
        put_sync(&mut out);
        self.send(&out)?;
        let reply = self.reply()?;
        self.check(n, &reply, 'I')?;
        out.clear();
        let rows = format!("SELECT {n} + g FROM generate_series(1, 7) g");
        put_parse(&mut out, b"", rows.as_bytes(), &[]);
        put_bind(&mut out, b"p", b"", &[]);
        for _ in 0..3 {
            put_execute(&mut out, b"p", 3);
        }
        put_sync(&mut out);
        self.send(&out)?;
        let reply = self.reply()?;
        let wanted = (1..8).map(|g| vec![Some((n + g).to_string())]).collect();
        self.must("rows by threes", reply.rows, wanted)?;
        let tags = ["suspended", "suspended", "SELECT 1"].map(str::to_owned).to_vec();
        self.must("rows by threes", reply.tags, tags)
    }
}

/// `SET`, as a statement.
pub fn set(setting: usize, value: &str, local: bool) -> String {
    let value = match NAMES[setting] {
        "search_path" => value.to_owned(),
        _ => format!("'{value}'"),
    };
    format!("SET {}{} = {value}", if local { "LOCAL " } else { "" }, NAMES[setting])
}

/// Appends a line of a COPY.
pub fn put_copy_data(out: &mut Vec<u8>, line: &str) {
    out.push(b'd');
    out.extend_from_slice(&(line.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(line.as_bytes());
}
