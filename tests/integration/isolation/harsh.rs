//! Clients that think better of it: cancels, and leaving in the midst of something.

use std::time::Duration;

use rand::Rng;
use wire::postgres::frontend::{put_bind, put_execute, put_flush, put_parse, put_query};

use super::actor::{ActResult, Actor};
use super::acts::{LARGE, put_copy_data, set};

/// Between two requests to cancel the same statement.
const AGAIN: Duration = Duration::from_millis(50);

impl Actor {
    /// Cancels what it has sent, until it is told something.
    fn cancel_until_told(&mut self) -> ActResult {
        loop {
            self.peer.cancel().map_err(|e| self.wrong(&e))?;
            if self.peer.hears_within(AGAIN).map_err(|e| self.wrong(&e))? {
                return Ok(());
            }
        }
    }

    pub(super) fn cancelled_sleep(&mut self) -> ActResult {
        let mut out = Vec::new();
        put_query(&mut out, b"SELECT pg_sleep(100)");
        self.note("a sleep, cancelled");
        self.send(&out)?;
        self.cancel_until_told()?;
        let reply = self.reply()?;
        self.must("a sleep", (reply.error.as_deref(), reply.status), (Some("57014"), 'I'))?;
        self.look('I')
    }

    /// A slow read of a kind that was seen to be quick, and others of its own behind it.
    pub(super) fn cancelled_read(&mut self) -> ActResult {
        let n = self.unique();
        let sql = |rows: u32| format!("SELECT count(*) + {n} FROM generate_series(1, {rows}) g");
        for _ in 0..2 {
            let reply = self.ask(&sql(10))?;
            self.must("a quick read", reply.value(), Some(&*(n + 10).to_string()))?;
        }
        let (m, probe) = self.probe();
        let mut out = Vec::new();
        put_query(&mut out, sql(3_000_000).as_bytes());
        put_query(&mut out, probe.as_bytes());
        self.note("a slow read, cancelled, and a probe");
        self.send(&out)?;
        self.cancel_until_told()?;
        let reply = self.reply()?;
        match &reply.error {
            // It may have been too quick.
            None => self.must("a slow read", reply.value(), Some(&*(n + 3_000_000).to_string()))?,
            Some(code) => self.must("a slow read", &**code, "57014")?,
        }
        // A cancel has no address but the session: it may hit what was sent along.
        let reply = self.reply()?;
        match &reply.error {
            None => self.check(m, &reply, 'I')?,
            Some(code) => self.must("a probe behind it", &**code, "57014")?,
        }
        self.look('I')
    }

    /// Goes away without a word, in the midst of something.
    pub(super) fn vanish(&mut self) -> ActResult {
        let row = self.ledger.next();
        let insert = format!("INSERT INTO ledger VALUES ({}, {row})", self.number);
        let mut out = Vec::new();
        let how = self.chance.random_range(0..7);
        match how {
            0 => {
                let sql = format!("SELECT repeat('y', {LARGE}) FROM generate_series(1, 40)");
                put_query(&mut out, sql.as_bytes());
            }
            1 => {
                self.run("BEGIN", "BEGIN", 'T')?;
                self.run(&insert, "INSERT 0 1", 'T')?;
                let (setting, value) = self.setting();
                put_query(&mut out, set(setting, &value, false).as_bytes());
            }
            2 => {
                self.ledger.perhaps.insert(row);
                put_query(&mut out, insert.as_bytes());
            }
            3 => {
                put_query(&mut out, insert.as_bytes());
                out.truncate(out.len() / 2);
            }
            4 => {
                put_query(&mut out, b"COPY ledger FROM STDIN");
                put_copy_data(&mut out, &format!("{}\t{row}\n", self.number));
            }
            5 => (0..8).for_each(|_| put_query(&mut out, self.probe().1.as_bytes())),
            _ => {
                put_parse(&mut out, b"", insert.as_bytes(), &[]);
                put_bind(&mut out, b"", b"", &[]);
                put_execute(&mut out, b"", 0);
                put_flush(&mut out);
            }
        }
        self.note(format!("vanishes, way {how}"));
        self.send(&out)?;
        if matches!(how, 0 | 5) {
            self.peer.glance(1000).map_err(|e| self.wrong(&e))?;
        }
        self.reconnect()?;
        self.look('I')
    }
}
